"""Against flapping: cells that go to and fro are held, and one push moves few cells far.

A cell is a bin of `bins`, named by its first number of running requests. Source: design/tuning.md, section 7.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from specfleet.api.schedule import Table, depth_for
from specfleet.tuning.bins import Bin

HOUR = 3600.0
MOST_REVERSALS = 3
MARGIN = 0.015  # ln of J, what a cell's change must bring
LARGEST_MARGIN = 0.08
MOST_FAR_CELLS = 2


@dataclass(frozen=True, slots=True)
class Move:
    """A push took a cell from one depth to another."""

    at: float
    cell: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Steadiness:
    """``moves`` of the last hour; ``frozen`` cells with the end of it; ``margins`` that were doubled."""

    moves: tuple[Move, ...] = ()
    frozen: Mapping[int, float] = field(default_factory=dict)
    margins: Mapping[int, float] = field(default_factory=dict)

    def margin(self, cell: int) -> float:
        return self.margins.get(cell, MARGIN)

    def is_frozen(self, cell: int, now: float) -> bool:
        return self.frozen.get(cell, 0.0) > now

    def reversals(self, cell: int) -> int:
        """Count the moves against the one before."""
        own = [move for move in self.moves if move.cell == cell]
        ups = [move.after > move.before for move in own]
        return sum(1 for one, other in pairwise(ups) if one != other)

    def after(self, old: Table, new: Table, bins: Sequence[Bin], now: float) -> "Steadiness":
        """Take in a push.

        A cell freezes at the smaller depth: when it has come down with its third reversal, since the fourth
        would have to be undone at once, or with its fourth.
        """
        moves = [move for move in self.moves if now - move.at < HOUR]
        moved = [
            Move(now, one.first, before, after)
            for one in bins
            if (before := depth_for(old, one.last)) != (after := depth_for(new, one.last))
        ]
        counted = Steadiness((*moves, *moved))
        frozen = {cell: until for cell, until in self.frozen.items() if until > now}
        margins = dict(self.margins)
        for move in moved:
            if move.after < move.before and counted.reversals(move.cell) >= MOST_REVERSALS:
                frozen[move.cell] = now + HOUR
                margins[move.cell] = min(LARGEST_MARGIN, 2.0 * self.margin(move.cell))
        return Steadiness(counted.moves, frozen, margins)


def near_enough(
    old: Sequence[int], new: Sequence[int], weights: Sequence[float], candidates: Sequence[int]
) -> list[int]:
    """Let the most loaded cells move as far as they want, at most two; the others go one notch."""
    far = [
        i for i, depth in enumerate(new) if abs(_notch(depth, candidates) - _notch(old[i], candidates)) > 1
    ]
    free = sorted(far, key=lambda i: (-weights[i], i))[:MOST_FAR_CELLS]
    return [
        _one_notch(old[i], depth, candidates) if i in far and i not in free else depth
        for i, depth in enumerate(new)
    ]


def _notch(depth: int, candidates: Sequence[int]) -> int:
    return bisect_left(candidates, depth)


def _one_notch(old: int, new: int, candidates: Sequence[int]) -> int:
    if new > old:
        return min(depth for depth in candidates if depth > old)
    return max(depth for depth in candidates if depth < old)
