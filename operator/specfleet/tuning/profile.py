"""The load of the last day in blocks of ten minutes: what decisions of hours are weighed by."""

from collections.abc import Sequence
from dataclasses import dataclass

from specfleet.tuning.evidence import Usable

BLOCK_SECONDS = 600.0
KEPT_SECONDS = 24 * 3600.0
QUEUED = 1.0  # requests that wait, on average: pods complete what they can


@dataclass(frozen=True, slots=True)
class Block:
    """The pool over ``seconds`` that end at ``until``, as means.

    ``batch``: decoding requests of one pod's step. ``running`` and ``waiting`` are requests of all pods,
    ``completions`` requests and ``tokens`` generated tokens a second. ``loaded``: with the proposer.
    """

    until: float
    seconds: float
    batch: float
    running: float
    waiting: float
    completions: float
    tokens: float
    loaded: bool = True

    @property
    def present(self) -> float:
        return self.running + self.waiting


Profile = tuple[Block, ...]


def noted(profile: Profile, used: Usable, loaded: bool, now: float) -> Profile:
    """Add one pass with traffic to the profile."""
    block = _block(used, loaded, now)
    if block is None:
        return profile
    kept = tuple(one for one in profile if now - one.until < KEPT_SECONDS)
    last = kept[-1] if kept else None
    whole = last is None or last.seconds >= BLOCK_SECONDS or now - last.until > 2.0 * BLOCK_SECONDS
    if last is None or whole or last.loaded != loaded:
        return (*kept, block)
    return (*kept[:-1], _joined(last, block))


def _block(used: Usable, loaded: bool, now: float) -> Block | None:
    counts, intervals = used.counts, used.intervals
    if not counts.all_steps or any(one.running is None for one in intervals):
        return None
    return Block(
        until=now,
        seconds=sum(one.seconds for one in intervals) / len(intervals),
        batch=counts.all_sequence_steps / counts.all_steps,
        running=sum(one.running or 0.0 for one in intervals),
        waiting=sum(one.waiting or 0.0 for one in intervals),
        completions=sum((one.counts.completions or 0.0) / one.seconds for one in intervals),
        tokens=sum((one.counts.generation_tokens or 0.0) / one.seconds for one in intervals),
        loaded=loaded,
    )


def _joined(one: Block, other: Block) -> Block:
    seconds = one.seconds + other.seconds

    def mean(first: float, second: float) -> float:
        return round((first * one.seconds + second * other.seconds) / seconds, 3)

    return Block(
        until=other.until,
        seconds=round(seconds, 3),
        batch=mean(one.batch, other.batch),
        running=mean(one.running, other.running),
        waiting=mean(one.waiting, other.waiting),
        completions=mean(one.completions, other.completions),
        tokens=mean(one.tokens, other.tokens),
        loaded=one.loaded,
    )


def calmest(profile: Sequence[Block], share: float) -> float:
    """Give the completions a second that were not reached in ``share`` of the time."""
    left = share * sum(one.seconds for one in profile)
    for one in sorted(profile, key=lambda block: block.completions):
        left -= one.seconds
        if left <= 0.0:
            return one.completions
    return 0.0


def lately(profile: Sequence[Block], seen_at: float | None) -> float:
    """Give the completions a second at ``seen_at``, the last look: over ten minutes at least of traffic.

    One look may see no request end at any load. Idle looks leave no block, so an old block is no load now.
    """
    if not profile or (seen_at is not None and seen_at - profile[-1].until > BLOCK_SECONDS):
        return 0.0
    seconds = completed = 0.0
    for one in reversed(profile):
        seconds += one.seconds
        completed += one.completions * one.seconds
        if seconds >= BLOCK_SECONDS:
            break
    return completed / seconds
