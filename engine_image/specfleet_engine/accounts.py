"""What a step says of itself to the serving side, which counts and delivers it."""

from typing import NamedTuple

from specfleet_engine.batch import Rows
from specfleet_engine.scheduler import Chunk
from specfleet_engine.verify import Verdict
from specfleet_serving.core import SequenceStep

__all__ = ["PromptTokens", "announce", "count_prompts", "report"]


class PromptTokens(NamedTuple):
    """Prompt tokens of a step; ``cached`` ones of them had their KV already."""

    tokens: int
    cached: int


def count_prompts(chunks: tuple[Chunk, ...]) -> PromptTokens:
    """Prompt tokens that are read or found in the cache for the first time. Call it before the commit.

    A preempted sequence is read again, and counts only as far as it had not come before.
    """
    tokens = cached = 0
    for chunk in chunks:
        sequence = chunk.sequence
        end = min(sequence.written + chunk.count, sequence.prompt_length)
        tokens += max(0, end - sequence.prompt_read)
        cached += max(0, min(sequence.written, end) - sequence.prompt_read)
        sequence.prompt_read = max(sequence.prompt_read, end)
    return PromptTokens(tokens, cached)


def report(row: Rows, verdict: Verdict) -> SequenceStep:
    """What the verdict says to the serving side. Call it before the tokens are taken."""
    return SequenceStep(
        row.sequence.id,
        verdict.tokens,
        row.drafts,
        verdict.accepted,
        len(row.sequence) == row.sequence.prompt_length,
        verdict.logprobs,
        verdict.failed,
    )


def announce(chunks: tuple[Chunk, ...]) -> tuple[str, ...]:
    """Ids of those whose first step this is; if a step fails, they are announced in the next one."""
    fresh = [chunk.sequence for chunk in chunks if not chunk.sequence.announced]
    for sequence in fresh:
        sequence.announced = True
    return tuple(sequence.id for sequence in fresh)
