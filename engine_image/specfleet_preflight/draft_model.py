"""Draft models: ordinary causal language models with the target's tokenizer.

Source: reference/checkpoints.md, section 8.
"""

from collections.abc import Iterator
from dataclasses import replace

from specfleet_preflight.checkpoint import Checkpoint
from specfleet_preflight.sizes import position_faults
from specfleet_preflight.start import Start
from specfleet_preflight.target import Target, model_faults, read_target
from specfleet_preflight.tokenizer import first_difference, read_vocabulary

__all__ = ["draft_model_faults"]


def draft_model_faults(folder: Checkpoint, target: Target, start: Start) -> Iterator[str]:
    """Say why the model cannot draft for the target. Raises Unreadable."""
    draft = read_target(folder, read_vocabulary(folder.path))
    # What engine.maxModelLen and engine.quantization ask of the model they do not ask of its draft model.
    yield from model_faults(draft, replace(start, max_model_len=1, quantization=None))
    yield from position_faults(folder, start)
    if target.tokens is not None and draft.tokens is not None:
        difference = first_difference(target.tokens, draft.tokens)
        if difference is not None:
            yield (
                f"it has another tokenizer, so its tokens would mean something else: {difference}; name a "
                "draft model of the same family"
            )
            return
    if draft.vocabulary != target.vocabulary:
        yield (
            f"its vocabulary has {draft.vocabulary} rows and the model's {target.vocabulary}; {start.label} "
            "refuses that, even where only padding differs: pad the smaller table of the two, or use "
            "engine.type builtin"
        )
