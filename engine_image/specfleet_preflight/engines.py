"""What engines themselves ask of a pair. Read in the released code of vLLM 0.32 and SGLang 0.5.23."""

from collections.abc import Iterator

from specfleet_preflight.start import Start

__all__ = ["METHODS", "beyond_positions", "method_faults"]

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


def beyond_positions(start: Start) -> tuple[str, str] | None:
    """Say what happens beyond a proposer's positions, and what to do about it; None: nothing.

    vLLM widens the rotary tables of EAGLE heads (vllm-project/vllm#48894), but keeps the shorter length for
    drafting: while one sequence of a batch is longer, its runner gives all of them zeros to verify.
    SGLang ends at start unless its environment allows it.
    """
    if start.engine == "vllm":
        copy = f"a copy of it whose config.json says max_position_embeddings {start.max_model_len}"
        return "one longer request makes all drafts of its batch worthless", f"serve {copy}"
    if start.stretched:
        return None
    return "SGLang does not start so", "set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN to 1 in engine.env"


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
