"""Safety floors: limits that come before the optimiser and only ever lower depths.

Source: design/tuning.md, section 10.1 (KV headroom, preemptions, queue).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specfleet.api.objectives import EffectiveObjectives
from specfleet.api.schedule import Table
from specfleet.tuning.bins import Bin, bin_of
from specfleet.tuning.rows import changed

WORST_OF_SECONDS = 300.0
NO_PROBE_HEADROOM = 0.15
NO_PROBE_BURN = 1.0
LATE_SHARE = 0.05  # timeToFirstToken is a limit of the p95
LEAST_FIRST_TOKENS = 20.0
BELOW = 0.7  # of the batch that was in danger: longer requests fill the KV cache with fewer


@dataclass(frozen=True, slots=True)
class Pressure:
    """One pass: free share of KV of the fullest pod, preempted requests, first tokens and the late ones.

    ``batch``: mean of decoding requests of a pod.
    """

    at: float
    headroom: float | None
    preemptions: float
    first_tokens: float = 0.0
    late: float = 0.0
    batch: float = 1.0


@dataclass(frozen=True, slots=True)
class Floor:
    """Depths are at most ``depth`` from ``from_requests`` upwards."""

    depth: int
    from_requests: int
    reason: str

    def applied(self, table: Table, max_requests: int) -> Table:
        first = min(self.from_requests, max_requests)
        return changed(
            table, max_requests, lambda running, depth: min(depth, self.depth) if running >= first else depth
        )


def worst_headroom(recent: Sequence[Pressure]) -> float | None:
    """Give the least headroom of the last minutes; None: nobody said."""
    return min((one.headroom for one in recent if one.headroom is not None), default=None)


def preempted(recent: Sequence[Pressure]) -> float:
    return sum(one.preemptions for one in recent)


def late_first_tokens(buckets: Mapping[float, float], bound: float) -> tuple[float, float]:
    """Give (all, late) of a cumulative histogram. A bound between two buckets is read as the next (P7)."""
    total = buckets.get(math.inf, 0.0)
    return total, total - min((count for le, count in buckets.items() if le >= bound), default=total)


def burn(recent: Sequence[Pressure]) -> float | None:
    """Say how fast the first-token budget burns: late tokens over those that p95 allows. None: too few."""
    total = sum(one.first_tokens for one in recent)
    return sum(one.late for one in recent) / (LATE_SHARE * total) if total >= LEAST_FIRST_TOKENS else None


def floors(
    objectives: EffectiveObjectives, recent: Sequence[Pressure], all_bins: tuple[Bin, ...], off: int = 0
) -> tuple[Floor, ...]:
    """Give the floors that hold now, the lowest last; none: no danger.

    A floor begins a little below the least batch that was in danger: from the batch of the moment it would
    begin elsewhere at every pass, and hold loads down that have room. ``off``: the depth for the tightest,
    1 where depth 0 pays a tax and ends requests later.
    """
    least = objectives.kv_headroom_share
    tight = [one for one in recent if one.headroom is not None and one.headroom < least]
    tighter = [one for one in tight if (one.headroom or 0.0) < least / 2]
    pushed_out = [one for one in recent if one.preemptions > 0.0]
    found = []
    if danger := [*tight, *pushed_out]:
        reason = f"KV headroom {worst_headroom(recent):.0%} is under {least:.0%}"
        if not tight:
            reason = f"{preempted(recent):.0f} preemptions within 5 min"
        found.append(_floor(max(1, off), danger, all_bins, reason))
    if tighter and off < 1:
        reason = f"KV headroom {worst_headroom(recent):.0%} is under half of {least:.0%}"
        found.append(_floor(off, tighter, all_bins, reason))
    return tuple(found)


def _floor(depth: int, danger: Sequence[Pressure], all_bins: tuple[Bin, ...], reason: str) -> Floor:
    first = all_bins[bin_of(BELOW * min(one.batch for one in danger), all_bins)].first
    most = f"depth <= {depth}" if depth else "depth 0"
    return Floor(depth, first, f"{reason}: {most} from {first} requests")


def queue_is_slow(
    objectives: EffectiveObjectives, delay: float | None, waiting: float, completions_per_second: float
) -> bool:
    """Say whether requests wait too long. A stuck queue records no delays, so its length counts."""
    limit = objectives.queue_delay_seconds
    if limit is not None and delay is not None and delay > limit:
        return True
    first_token = objectives.time_to_first_token_seconds
    return first_token is not None and waiting > max(1.0, 2.0 * completions_per_second * first_token)
