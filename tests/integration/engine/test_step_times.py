"""Where the time of a step goes, told by a clock that only the parts of the step move."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.integration.engine.driving import Scripted, a_core, greedy

from specfleet_engine import core as core_module


class Clock:
    """Stands still, but while a part of the step runs that `charge` knows."""

    def __init__(self) -> None:
        self.now = 0.0

    def charge(self, seconds: float, part: Callable[..., Any]) -> Callable[..., Any]:
        def charged(*arguments: Any) -> Any:
            self.now += seconds
            return part(*arguments)

        return charged


def test_the_proposers_seconds_are_its_own_without_the_planning_of_the_step(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(core_module, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    proposer = Scripted(lambda sequence, depth: [9] * depth)
    core = a_core(llama, proposer=proposer)
    core.add(greedy("r", (5, 9, 5), 20))
    core.step(3)
    monkeypatch.setattr(core._scheduler, "plan", clock.charge(5.0, core._scheduler.plan))
    monkeypatch.setattr(proposer, "propose", clock.charge(3.0, proposer.propose))
    monkeypatch.setattr(core._model, "run", clock.charge(7.0, core._model.run))
    monkeypatch.setattr(proposer, "observe", clock.charge(2.0, proposer.observe))

    drafting, plain = core.step(3), core.step(0)

    assert drafting is not None
    assert (drafting.seconds, drafting.proposer_seconds, drafting.verify_seconds) == (17.0, 5.0, 7.0)
    assert plain is not None
    assert (plain.seconds, plain.proposer_seconds, plain.verify_seconds) == (12.0, 0.0, 7.0)
