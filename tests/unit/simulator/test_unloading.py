"""A policy restarts pods without their proposer, one after another, and with it again."""

import numpy as np
import pytest
from tests.unit.simulator.scenes import a_scenario

from specfleet.api.schedule import flat
from specfleet.simulator.policy import Policy, keep
from specfleet.simulator.run import Run, simulate
from specfleet.simulator.scenario import Slice
from specfleet.simulator.state import IN_DEPTH, UP
from specfleet.tuning.decide import Outcome
from specfleet.tuning.decision import Decision, HardOff, LoadProposer
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings


class _Script:
    def __init__(self, steps: dict[int, Decision]) -> None:
        self.steps, self.passes = steps, 0

    def __call__(self, settings: PoolSettings, evidence: Evidence, memory: Memory, now: float) -> Outcome:
        self.passes += 1
        if self.passes not in self.steps:
            return keep(settings, evidence, memory, now)
        return Outcome(self.steps[self.passes], memory, "Active")


def under(steps: dict[int, Decision], pods: int = 1) -> Run:
    policy = Policy("script", flat(2), lambda: _Script(steps))
    return simulate(a_scenario(seconds=1500, peak=0.2, slices=(Slice(pods=pods),)), policy, 1)


OFF, ON = HardOff("slower", 3600.0), LoadProposer("again")


def test_the_pod_is_drained_down_for_three_minutes_and_back_without_drafts() -> None:
    run = under({20: OFF})

    with_it, without = run.traces
    assert (with_it.loaded, without.loaded) == (True, False)
    up = [~np.isnan(trace.rows[:, UP]) for trace in run.traces]
    assert not (up[0] & up[1]).any()
    assert (~(up[0] | up[1])).sum() == pytest.approx(180, abs=2)
    assert set(with_it.rows[up[0], IN_DEPTH]) >= {2.0}
    assert set(without.rows[up[1], IN_DEPTH]) == {0.0}
    assert not np.isnan(run.requests.finished).any()


def test_a_restart_that_begins_shortly_before_the_end_is_finished() -> None:
    run = under({98: OFF})  # of a hundred passes

    assert [trace.loaded for trace in run.traces] == [True, False]
    # 60 s of draining, 180 s down, and what the cold pod needs for what has come meanwhile.
    assert np.nanmax(run.requests.finished) < 1500.0 + 600.0
    assert not np.isnan(run.requests.finished).any()


def test_pods_go_one_after_another() -> None:
    run = under({20: OFF}, pods=2)

    down = [np.isnan(trace.rows[:, UP]) for trace in run.traces]
    first, second = down[0] & down[1], down[2] & down[3]
    assert first.any()
    assert second.any()
    assert not (first & second).any()


def test_the_proposer_comes_back_with_another_fingerprint_in_between() -> None:
    run = under({10: OFF, 60: ON})

    assert [trace.loaded for trace in run.traces] == [True, False, True]
    assert np.nanmax(run.traces[2].rows[:, IN_DEPTH]) == 2.0
    names = {i.pod[1] for one in run.passes for i in one.readings.intervals}
    assert len(names) == 3
