"""Small scenarios, and what their runs did."""

from collections.abc import Sequence

import numpy as np

from specfleet.api.schedule import Table, flat
from specfleet.simulator.acceptance import Acceptance
from specfleet.simulator.cost import Cost
from specfleet.simulator.policy import Policy, keep
from specfleet.simulator.run import Run
from specfleet.simulator.scenario import Fault, Scenario, Slice, Telemetry
from specfleet.simulator.traffic import Traffic
from specfleet.tuning.decide import Outcome
from specfleet.tuning.decision import Hold, Push
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings

EVEN = Acceptance(regimes=False, collapse=False, drift=0.0)
CALM = Telemetry(lost=0.0)


def a_scenario(
    *,
    seconds: int = 600,
    peak: float = 0.5,
    acceptance: Acceptance = EVEN,
    telemetry: Telemetry = CALM,
    slices: tuple[Slice, ...] = (Slice(),),
    faults: Sequence[Fault] = (),
    traffic: Traffic | None = None,
    **others: object,
) -> Scenario:
    return Scenario(
        "chat",
        seconds=seconds,
        acceptance=acceptance,
        telemetry=telemetry,
        slices=slices,
        faults=tuple(faults),
        traffic=traffic or Traffic(shape="steady", peak=peak, burst=1.0),
        cost=Cost(),
        **others,  # type: ignore[arg-type]
    )


def static(depth: int) -> Policy:
    """A policy that reads all and changes nothing."""
    return Policy(f"static-{depth}", flat(depth), lambda: keep)


def pushing(*pushes: tuple[int, Table], start: int = 2) -> Policy:
    """A policy that pushes tables at the given passes, counted from 1."""

    def controller() -> "_Script":
        return _Script(dict(pushes))

    return Policy("script", flat(start), controller)


class _Script:
    def __init__(self, pushes: dict[int, Table]) -> None:
        self.pushes = pushes
        self.passes = 0

    def __call__(self, settings: PoolSettings, evidence: Evidence, memory: Memory, now: float) -> Outcome:
        self.passes += 1
        if self.passes not in self.pushes:
            return keep(settings, evidence, memory, now)
        return Outcome(Push(self.pushes[self.passes], "script"), memory, "Active")


def latencies(run: Run) -> np.ndarray:
    return np.asarray(run.requests.finished - run.requests.arrival)


def holds(run: Run) -> list[str]:
    return [one.outcome.decision.kind for one in run.passes if isinstance(one.outcome.decision, Hold)]
