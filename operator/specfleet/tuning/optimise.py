"""The best table: one depth per bin, measured where there is load, careful where there is none.

Source: design/tuning.md, section 7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specfleet.api.schedule import Table, depth_for
from specfleet.tuning.bins import Bin
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.rows import table_of, widened
from specfleet.tuning.steadiness import Steadiness, near_enough

TIE = 0.01  # in ln J


@dataclass(frozen=True, slots=True)
class Situation:
    """Where the pool works: the table in force, all bins, and seconds of recent load by bin index.

    ``now`` tells which cells ``steadiness`` holds.
    """

    table: Table
    bins: Sequence[Bin]
    load: Mapping[int, float]
    candidates: Sequence[int]
    steadiness: Steadiness = field(default_factory=Steadiness)
    now: float = 0.0

    def weights(self) -> list[float]:
        total = sum(self.load.values()) or 1.0
        return [self.load.get(i, 0.0) / total for i in range(len(self.bins))]


def best_table(estimates: Estimates, situation: Situation, *, extrapolate: bool = False) -> Table:
    """Build the table of the best depths. ``extrapolate``: untried depths too, for advice only."""
    known = [_best_depth(estimates, one, situation, extrapolate) for one in situation.bins]
    depths = [
        depth if depth is not None else _unvisited(i, known, estimates, situation)
        for i, depth in enumerate(known)
    ]
    if not extrapolate:
        current = [depth_for(situation.table, one.last) for one in situation.bins]
        depths = near_enough(current, depths, situation.weights(), situation.candidates)
    return table_of(widened(depths, situation.weights(), situation.bins), situation.bins)


def _best_depth(estimates: Estimates, one: Bin, situation: Situation, extrapolate: bool) -> int | None:
    """Choose among the depths measured near a cell; None: nothing has run there."""
    batch, current = one.middle, depth_for(situation.table, one.last)
    if situation.steadiness.is_frozen(one.first, situation.now):
        return current
    tried = [depth for depth in situation.candidates if estimates.measured(batch, depth)]
    if not tried:
        return None
    if extrapolate:
        tried = list(situation.candidates)
    elif not estimates.measured(batch, current):
        return current
    scores = {depth: estimates.score(batch, depth, current) for depth in {*tried, current}}
    top = max(scores.values())
    best = min(depth for depth, score in scores.items() if score >= top - TIE)
    return best if scores[best] > situation.steadiness.margin(one.first) else current


def _unvisited(index: int, known: Sequence[int | None], estimates: Estimates, situation: Situation) -> int:
    """Fill a bin without load: not deeper than the bins below it, not shallower than those above.

    A larger batch leaves less room for drafts, so the nearest visited bins bound the model's answer.
    """
    below = next((depth for depth in reversed(known[:index]) if depth is not None), None)
    above = next((depth for depth in known[index + 1 :] if depth is not None), None)
    current = depth_for(situation.table, situation.bins[index].last)
    if below is None:
        return current if above is None else above
    batch = situation.bins[index].middle
    allowed = [d for d in situation.candidates if d <= below and estimates.survival.known(d)]
    best = max(allowed, key=lambda depth: estimates.score(batch, depth, current), default=min(current, below))
    return min(below, max(best, above or 0))


def gain(estimates: Estimates, situation: Situation, new: Table) -> float:
    """Weigh a new table against the one in force: the mean of ln(J_new / J_old) over the recent load.

    Each cell counts less its own uncertainty: what cells share is uncertain in all of them at once.
    """
    total = 0.0
    for weight, one in zip(situation.weights(), situation.bins, strict=True):
        old, better = depth_for(situation.table, one.last), depth_for(new, one.last)
        if weight > 0.0 and old != better:
            total += weight * estimates.score(one.middle, better, old)
    return total
