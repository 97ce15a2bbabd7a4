"""What the depths of a run were worth, second by second, against the oracle that knows everything.

J is the prefill-amortised index of design/simulator.md, section 7; hard-off is allowed to win.
"""

from dataclasses import dataclass

import numpy as np

from specfleet.simulator.compiled import compiled
from specfleet.simulator.cost import Cost, amortised_rate
from specfleet.simulator.run import Run
from specfleet.simulator.state import BATCH, CONTEXT, IN_DEPTH


@dataclass(frozen=True, slots=True)
class Worth:
    """``ratio``: J in force over the best J, by second, NaN without load; ``regret`` is 1 less its mean over
    the decoding requests. ``switches``: changes of depth from one second to the next.
    """

    ratio: np.ndarray
    regret: float
    mean_depth: float
    switches: int


def worth_of(run: Run) -> Worth:
    """Compare each second's depth of each pod with the best one."""
    total = np.zeros(run.scenario.seconds)
    weight = np.zeros(run.scenario.seconds)
    depth_sum, switches = 0.0, 0
    for trace in run.traces:
        rows = np.nan_to_num(trace.rows[: run.scenario.seconds]).astype(float)
        cost = run.scenario.cost._replace(noise=0.0)
        ratios = _ratios(
            rows[:, BATCH],
            rows[:, CONTEXT],
            rows[:, IN_DEPTH],
            run.text.mean,
            run.rho,
            cost,
            float(trace.loaded),
            run.scenario.max_depth,
        )
        total += ratios * rows[:, BATCH]
        weight += rows[:, BATCH]
        depth_sum += float((rows[:, IN_DEPTH] * rows[:, BATCH]).sum())
        busy = rows[rows[:, BATCH] > 0, IN_DEPTH]
        switches += int((np.diff(busy) != 0).sum())
    served = max(float(weight.sum()), 1.0)
    ratio = np.where(weight > 0, total / np.maximum(weight, 1e-9), np.nan)
    return Worth(ratio, 1.0 - float(total.sum()) / served, depth_sum / served, switches)


@compiled
def _ratios(
    batch: np.ndarray,
    cached: np.ndarray,
    depth: np.ndarray,
    survival: np.ndarray,
    rho: float,
    cost: Cost,
    loaded: float,
    deepest: int,
) -> np.ndarray:
    ratios = np.zeros(len(batch))
    for second in range(len(batch)):
        if batch[second] <= 0.0:
            continue
        context = cached[second] / batch[second]
        now = survival[second]
        best = amortised_rate(cost, batch[second], context, 0, now, rho, 0.0)
        for candidate in range(deepest + 1):
            best = max(best, amortised_rate(cost, batch[second], context, candidate, now, rho, 1.0))
        own = amortised_rate(cost, batch[second], context, int(depth[second]), now, rho, loaded)
        ratios[second] = own / best
    return ratios
