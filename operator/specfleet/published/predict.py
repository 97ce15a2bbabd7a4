"""Predicting one row of a grid from its other rows, by the tuner's cost model and objective."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from specfleet.published.sets import Grid, Point
from specfleet.tuning.cost import StepCost
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.interval import Counts
from specfleet.tuning.optimise import TIE
from specfleet.tuning.survival import Survival
from specfleet.tuning.windows import Window

PRIOR_SURVIVAL = (0.60, 0.36, 0.22, 0.13, 0.08)  # design/tuning.md, section 4
_STEPS = 400.0  # a published number is a mean over some hundred steps
_SEQUENCE_STEPS = 1e6
_UNREPORTED_CONTEXT = 300.0  # tokens; ShareGPT first turns and their answers


@dataclass(frozen=True, slots=True)
class Prediction:
    """One row: speed-ups over speculation off by depth, as predicted and as published."""

    grid: str
    row: tuple[float, float]
    predicted: dict[int, float]
    published: dict[int, float]
    extrapolated: bool

    @property
    def predicted_depth(self) -> int:
        """The best depth; ties go to the smaller one, as in the tuner."""
        top = max(self.predicted.values())
        return min(depth for depth, speed in self.predicted.items() if speed >= math.exp(-TIE) * top)

    @property
    def published_depth(self) -> int:
        return max(self.published, key=lambda depth: self.published[depth])


def predictions(grid: Grid) -> tuple[Prediction, ...]:
    """Predict every row from the others: of its own figures nothing is used but load and context."""
    return tuple(_predicted(grid, row) for row in grid.rows)


def _predicted(grid: Grid, row: tuple[float, float]) -> Prediction:
    known = [point for point in grid.points if point.row != row]
    measured = grid.at(row)
    survival = _survival(known)
    windows = tuple(_window(point, survival) for point in known)
    cost = StepCost(windows, 0.0, context=row[1] or _UNREPORTED_CONTEXT, taxed=False)
    estimates = Estimates(survival, cost)
    rates = {depth: estimates.rate(row[0], depth) for depth in measured}
    return Prediction(
        grid.name,
        row,
        {depth: rate / rates[0] for depth, rate in rates.items()},
        {depth: point.tokens_per_second / measured[0].tokens_per_second for depth, point in measured.items()},
        extrapolated=row in (grid.rows[0], grid.rows[-1]),
    )


def _window(point: Point, survival: Survival) -> Window:
    tokens = point.tokens_per_step or survival.tokens_per_step(point.depth)
    return Window(
        at=0.0,
        depth=point.depth,
        batch=point.load,
        tokens=point.load * (1 + point.depth),
        seconds=point.load * tokens / point.tokens_per_second,
        steps=_STEPS,
        cached=point.load * (point.context or _UNREPORTED_CONTEXT),
    )


def _survival(known: Sequence[Point]) -> Survival:
    """Give the survival that makes the mean of the reported tokens per step, the prior where none is."""
    deepest = max(point.depth for point in known)
    reported = {0: 1.0}
    for depth in range(1, deepest + 1):
        lengths = [p.tokens_per_step for p in known if p.depth == depth and p.tokens_per_step is not None]
        if lengths:
            reported[depth] = fmean(lengths)
    accepted = _shares(reported, deepest) if len(reported) > 1 else list(PRIOR_SURVIVAL[:deepest])
    counts = Counts(
        sequence_steps={deepest: _SEQUENCE_STEPS},
        draft_positions=dict.fromkeys(range(1, deepest + 1), _SEQUENCE_STEPS),
        accepted_positions={i: _SEQUENCE_STEPS * share for i, share in enumerate(accepted, start=1)},
    )
    return Survival().plus(counts)


def _shares(reported: dict[int, float], deepest: int) -> list[float]:
    """Spread what is reported at some depths over the positions between; beyond, the last goes on."""
    shares: list[float] = []
    before = 0
    for depth in sorted(reported)[1:]:
        share = (reported[depth] - reported[before]) / (depth - before)
        shares += [min(1.0, max(0.0, share))] * (depth - before)
        before = depth
    return shares + shares[-1:] * (deepest - len(shares))
