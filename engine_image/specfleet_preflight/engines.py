"""What engines themselves ask of a pair. Read in the released code of vLLM 0.32 and SGLang 0.5.23."""

from collections.abc import Iterator

from specfleet_preflight.start import Start

__all__ = ["METHODS", "method_faults", "stretches"]

# Methods with weights of their own that could ever be served.
METHODS = ("draftModel", "eagle", "eagle3", "medusa")
_LAST_MEDUSA = (0, 32)


def method_faults(start: Start) -> Iterator[str]:
    """Say whether this version of the engine has the method."""
    if start.method != "medusa":
        return
    if start.engine == "sglang":
        yield "SGLang has no method medusa: use eagle or eagle3, or engine.type builtin"
    elif _release(start.version) > _LAST_MEDUSA:
        yield (
            f"{start.label} has no method medusa, which ended with 0.32: write engine.version 0.32.0, use "
            "eagle or eagle3, or engine.type builtin"
        )


def stretches(start: Start) -> bool:
    """Say whether the engine lets a proposer go beyond the positions that its config names.

    vLLM widens the rotary tables of EAGLE heads to the model's length (vllm-project/vllm#48894), and no other
    proposer's: requests beyond it stop all drafting of their batch. SGLang ends at start unless its
    environment allows it.
    """
    return start.stretched or (start.engine == "vllm" and start.method in ("eagle", "eagle3"))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
