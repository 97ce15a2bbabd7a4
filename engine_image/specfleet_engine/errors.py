"""What the engine refuses, and why.

EngineError
    ModelRefused      the model folder cannot be served as it is
    ProposerRefused   the proposer's folder cannot be read as a whole, or does not fit the model
    DeviceMissing     the device that was asked for is not there
    MemoryMissing     KV cache and largest step do not fit into the memory that is free
    KVCacheTooSmall   the KV cache cannot hold even one sequence of the longest length
"""

__all__ = [
    "DeviceMissing",
    "EngineError",
    "KVCacheTooSmall",
    "MemoryMissing",
    "ModelRefused",
    "ProposerRefused",
]


class EngineError(Exception):
    """A fault that a person can put right. The text says what, where, and what to do."""


class ModelRefused(EngineError):
    """The model folder is missing, broken, or of a kind that this engine does not serve."""


class ProposerRefused(EngineError):
    """The proposer is missing, broken, of another format than asked for, or not made for the target."""


class DeviceMissing(EngineError):
    """The device that was asked for is not there."""


class MemoryMissing(EngineError):
    """The KV cache and the largest step do not fit into the memory that is free."""


class KVCacheTooSmall(EngineError):
    """The memory given to the KV cache does not hold one sequence of the longest length."""
