"""The policies that are compared: each does what it is known for. Source: design/simulator.md, section 7."""

import numpy as np
import pytest
from tests.unit.simulator.scenes import EVEN, a_scenario

from specfleet.api.schedule import depth_for, problems
from specfleet.simulator.acceptance import CODE, RETRIEVAL, Acceptance
from specfleet.simulator.policies import POLICIES
from specfleet.simulator.run import Run, simulate
from specfleet.simulator.scenario import Scenario
from specfleet.simulator.state import BATCH, IN_DEPTH
from specfleet.simulator.tables import correct_table, table_of_a_faster_gpu, table_of_code_prompts
from specfleet.simulator.traffic import Traffic

BASE = Scenario("base")
LOADS = (1, 4, 16, 40, 60, 100, 200)
OVERLOAD = Traffic(shape="steady", peak=1.3, burst=1.0)


def under(name: str, scenario: Scenario, seed: int = 1) -> Run:
    return simulate(scenario, POLICIES[name](scenario), seed)


def depths(run: Run) -> np.ndarray:
    rows = run.traces[0].rows
    return np.asarray(rows[rows[:, BATCH] > 0, IN_DEPTH])


def only(profile: tuple[float, ...]) -> Acceptance:
    return Acceptance(profiles=(profile,), mix=(1.0,), regimes=False, collapse=False, drift=0.0)


@pytest.mark.parametrize("make", [correct_table, table_of_code_prompts, table_of_a_faster_gpu])
def test_a_profiled_table_is_one_that_an_engine_takes(make: object) -> None:
    assert problems(make(BASE), BASE.max_depth) == ()  # type: ignore[operator]


def test_the_correct_table_drafts_less_the_more_requests_run() -> None:
    found = [depth_for(correct_table(BASE), n) for n in LOADS]

    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


@pytest.mark.parametrize("make", [table_of_code_prompts, table_of_a_faster_gpu])
def test_a_wrongly_profiled_table_drafts_too_deep_at_the_peak(make: object) -> None:
    wrong, right = make(BASE), correct_table(BASE)  # type: ignore[operator]

    assert depth_for(wrong, 60) > depth_for(right, 60)


def test_the_threshold_goes_deeper_on_code_and_never_off_on_retrieval() -> None:
    code = under("acceptance-threshold", a_scenario(acceptance=only(CODE)))
    retrieval = under("acceptance-threshold", a_scenario(acceptance=only(RETRIEVAL)))

    # (.82 + .69) / 2 is above .75, with 3 and 4 drafts inside the band; (.55 + .29) / 2 is below .55.
    assert depths(code)[-1] in (3, 4)
    assert depths(retrieval)[-1] == 1


def test_the_bandit_switches_many_times_an_hour() -> None:
    run = under("bandit", a_scenario(seconds=1800))

    assert len(run.documents) - 1 > 15


def test_the_adaptive_slots_switch_drafts_off_above_64_requests() -> None:
    run = under("ema", a_scenario(seconds=900, traffic=OVERLOAD))
    rows = run.traces[0].rows

    assert set(rows[rows[:, BATCH] >= 64, IN_DEPTH]) == {0.0}


def test_the_argmax_inside_a_step_over_speculates_near_saturation() -> None:
    scenario = a_scenario(seconds=1200, traffic=Traffic(shape="steady", peak=1.0, burst=1.0))

    assert depths(under("in-step", scenario)).mean() > depths(under("oracle", scenario)).mean() + 0.5


def test_no_static_depth_completes_more_than_the_oracle_under_a_standing_queue() -> None:
    scenario = a_scenario(seconds=1200, traffic=OVERLOAD)
    done = {
        name: int((under(name, scenario).requests.finished < scenario.seconds).sum())
        for name in ("oracle", "static-1", "static-3", "static-5", "hard-off")
    }

    assert max(done, key=lambda name: done[name]) == "oracle"


def test_hard_off_has_no_proposer_in_any_pod() -> None:
    run = under("hard-off", a_scenario(acceptance=EVEN))

    assert not any(trace.loaded for trace in run.traces)
    assert set(depths(run)) == {0.0}


def test_the_operators_tuner_runs_unmodified_and_pushes() -> None:
    run = under("ours", a_scenario(seconds=1800, peak=0.3, acceptance=only(CODE)))

    assert len(run.documents) > 1
    assert depths(run)[-1] >= 3
