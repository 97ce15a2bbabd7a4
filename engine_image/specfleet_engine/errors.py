"""What the engine refuses, and why.

EngineError
    ModelRefused      the model folder cannot be served as it is
    KVCacheTooSmall   the KV cache cannot hold even one sequence of the longest length
"""

__all__ = ["EngineError", "KVCacheTooSmall", "ModelRefused"]


class EngineError(Exception):
    """A fault that a person can put right. The text says what, where, and what to do."""


class ModelRefused(EngineError):
    """The model folder is missing, broken, or of a kind that this engine does not serve."""


class KVCacheTooSmall(EngineError):
    """The memory given to the KV cache does not hold one sequence of the longest length."""
