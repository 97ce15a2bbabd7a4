"""Where a pool stands, in one word for status. Source: design/tuning.md, section 13."""

from typing import Literal

from specfleet.api.schedule import depth_for
from specfleet.tuning.cost import ENOUGH_STEPS
from specfleet.tuning.decision import Hold
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.memory import Memory
from specfleet.tuning.move import Known

State = Literal["Pending", "Learning", "Active", "SafeHold", "SoftOff", "HardOff"]


def state_of(evidence: Evidence, memory: Memory, fault: Hold | None, known: Known) -> State:
    """Name the state after a pass. ``fault``: what is wrong with its data."""
    if not evidence.expected:
        return "Pending"
    if fault is not None or memory.faulty:
        return "SafeHold"
    if memory.unloaded is not None:
        return "HardOff"
    if memory.good_passes == 0 and not memory.windows:
        return "Pending"
    if all(row.depth == 0 for row in known.situation.table):
        return "SoftOff"
    return "Active" if _learnt(memory, known) else "Learning"


def _learnt(memory: Memory, known: Known) -> bool:
    """Depth 0 and the depth in use have been measured at the batch in use."""
    if memory.batch is None or known.estimates is None:
        return False
    cost, batch = known.estimates.cost, memory.batch
    current = depth_for(known.situation.table, max(1, round(batch)))
    return all(cost.steps_near(batch, depth) >= ENOUGH_STEPS for depth in (0, current))
