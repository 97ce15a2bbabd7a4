"""How far the tuner's step-cost model is from the truth: where it has measured, and one notch beside.

Source: design/simulator.md, section 9, "cost-model error". A step is compared without prompts, which differ
from step to step, at the mean batch of a cell and the mean context that the tuner has seen.
"""

from collections.abc import Iterable
from statistics import fmean

from specfleet.simulator.cost import step_seconds
from specfleet.simulator.operator import settings_of
from specfleet.simulator.pool import EPOCH
from specfleet.simulator.run import Run
from specfleet.tuning.bins import bin_of, bins
from specfleet.tuning.cost import StepCost

AFTER = 2 * 3600.0
LEAST_WINDOWS = 3
_Cell = tuple[int, int]  # depth, bin


def model_errors(run: Run) -> dict[str, float | None]:
    """Give the mean relative errors at the end of a run; None: too short, or its policy has no model."""
    memory = run.passes[-1].outcome.memory
    if run.scenario.seconds < AFTER or not memory.windows:
        return {"costErrorVisited": None, "costErrorNotch": None}
    settings = settings_of(run.scenario)
    all_bins = bins(settings.max_requests)
    batches: dict[_Cell, list[float]] = {}
    for window in filter(lambda one: one.loaded, memory.windows):
        batches.setdefault((window.depth, bin_of(window.batch, all_bins)), []).append(window.batch)
    visited = {cell: fmean(found) for cell, found in batches.items() if len(found) >= LEAST_WINDOWS}
    depths = settings.candidates
    beside: dict[_Cell, float] = {}
    for (depth, index), batch in visited.items():
        at = depths.index(depth)
        for other in depths[max(0, at - 1) : at + 2]:
            if (other, index) not in batches:
                beside[other, index] = batch
    context, now = memory.context or 0.0, EPOCH + run.passes[-1].at
    cost = StepCost(memory.windows, now, context=context, knee_tokens=settings.knee_tokens)

    def error(cells: Iterable[tuple[_Cell, float]]) -> float | None:
        errors = []
        for (depth, _), batch in cells:
            tokens = batch * (1 + depth)
            true = step_seconds(run.scenario.cost, batch, tokens, batch * context, depth, 1.0)
            errors.append(abs(cost.seconds(batch, tokens, depth) - true) / true)
        return fmean(errors) if errors else None

    return {"costErrorVisited": error(visited.items()), "costErrorNotch": error(beside.items())}
