"""How the engine will be started, as far as a pair has to fit it."""

from dataclasses import dataclass

__all__ = ["ENGINES", "Start"]

ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}


@dataclass(frozen=True, slots=True)
class Start:
    """``engine`` and ``method`` as users write them; ``element_bytes`` of a weight that is not
    quantised, ``kv_element_bytes`` of the KV cache.

    ``memory_bytes`` of one device; None: not known, so the plan is printed and not judged.
    ``stretched``: positions beyond those of a config are allowed.
    """

    engine: str
    version: str
    method: str
    max_model_len: int
    max_num_seqs: int
    max_depth: int
    quantization: str | None = None
    element_bytes: int = 2
    kv_element_bytes: int = 2
    tensor_parallel: int = 1
    memory_bytes: int | None = None
    stretched: bool = False

    @property
    def label(self) -> str:
        """The engine as a sentence names it."""
        return f"{ENGINES[self.engine]} {self.version}"
