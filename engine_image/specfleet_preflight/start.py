"""How the engine will be started, as far as a pair has to fit it."""

from dataclasses import dataclass

__all__ = ["ENGINES", "Start"]

ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}


@dataclass(frozen=True, slots=True)
class Start:
    """``engine`` and ``method`` as users write them; ``element_bytes`` of a weight that is not
    quantised, ``kv_element_bytes`` of the KV cache.

    ``tensor_parallel`` devices share each layer, and ``pipeline_parallel`` stages of them the layers. The
    experts of a stage are spread over ``expert_parallel`` devices, a sequence's KV cache over
    ``context_parallel``.

    ``memory_bytes`` of one device; None: not known, so the plan is printed and not judged.
    ``offloaded_bytes`` of each device's weights lie in the host's memory.
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
    kv_element_bytes: float = 2
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    context_parallel: int = 1
    offloaded_bytes: int = 0
    memory_bytes: int | None = None
    stretched: bool = False

    @property
    def label(self) -> str:
        """The engine as a sentence names it."""
        return f"{ENGINES[self.engine]} {self.version}"

    @property
    def devices(self) -> int:
        """How many share one copy of the model."""
        return self.pipeline_parallel * max(self.expert_parallel, self.tensor_parallel)
