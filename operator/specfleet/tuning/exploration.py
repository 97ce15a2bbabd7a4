"""What probes may cost: the part of a pool's output that is given up to learn.

Depths that are not known at a load are outside the budget: their pace alone limits them.
Source: design/tuning.md, section 8. Its other limit, 5 % of pod-minutes, is for canary slices; a pool without
one pays for probes on all pods, and the pace of probes stands in.
"""

import math

from specfleet.tuning.estimates import Estimates
from specfleet.tuning.memory import Memory, ProbeRun, Spent
from specfleet.tuning.steadiness import HOUR

BUDGET_SHARE = 0.005  # of an hour's output


def affordable(memory: Memory, estimates: Estimates, depth: int, current: int, seconds: float) -> bool:
    """Say whether another probe of a known depth fits into this hour's budget: one expected to pay does."""
    if memory.batch is None:
        return False
    price = seconds * _loss(estimates, memory.batch, depth, current)
    return price == 0.0 or sum(one.seconds for one in memory.spent) + price <= BUDGET_SHARE * HOUR


def cost(probe: ProbeRun, estimates: Estimates, current: int, now: float) -> Spent:
    """Give what a probe has cost until now, against the depth that it took the place of."""
    return Spent(now, (now - probe.started) * _loss(estimates, probe.batch, probe.depth, current))


def _loss(estimates: Estimates, batch: float, depth: int, current: int) -> float:
    return max(0.0, -math.expm1(estimates.gain(batch, depth, current).expected))
