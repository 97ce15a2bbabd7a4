"""What goes wrong in telemetry, pods and files reaches the policy as it would in a cluster."""

import numpy as np
import pytest
from tests.unit.simulator.scenes import a_scenario, holds, pushing, static

from specfleet.api.schedule import flat
from specfleet.simulator.policy import Policy
from specfleet.simulator.run import Run, simulate
from specfleet.simulator.scenario import Fault, FaultKind, Slice, Telemetry
from specfleet.simulator.state import IN_DEPTH, UP
from specfleet.tuning.decide import decide

OURS = Policy("ours", flat(2), lambda: decide)


def while_broken(kind: FaultKind, pod: int | None = None, slices: tuple[Slice, ...] = (Slice(),)) -> Run:
    fault = Fault(kind, 300.0, 240.0, pod)
    return simulate(a_scenario(faults=(fault,), slices=slices), OURS, 3)


@pytest.mark.parametrize(
    ("kind", "hold"),
    [
        ("outage", "MetricsUnavailable"),
        ("warning", "MetricsUnavailable"),
        ("not-scraped", "MetricsStale"),
        ("hung-exporter", "MetricsStale"),
    ],
)
def test_the_tuner_holds_while_telemetry_is_broken_and_says_why(kind: FaultKind, hold: str) -> None:
    run = while_broken(kind)
    broken = [one.outcome for one in run.passes if 360.0 <= one.at < 540.0]

    assert hold in {outcome.data_fault.kind for outcome in broken if outcome.data_fault}
    assert not any(360.0 <= at < 540.0 for at, _ in run.documents)


def test_gauges_that_read_nan_reach_the_policy_as_no_data() -> None:
    run = while_broken("nan")
    seen = [i for one in run.passes if 330.0 <= one.at < 540.0 for i in one.readings.intervals]

    assert seen
    assert all(interval.kv_usage is None and interval.running is None for interval in seen)


def test_a_hung_core_shows_fresh_samples_of_frozen_counters() -> None:
    run = while_broken("stuck")

    assert any(i.stuck for one in run.passes if one.at >= 300.0 for i in one.readings.intervals)


def test_a_crash_resets_the_counters_of_the_pod_and_loses_no_request() -> None:
    run = simulate(
        a_scenario(faults=(Fault("crash", 300.0, 30.0, 0),), slices=(Slice(pods=2),)), static(2), 1
    )

    restarted = {i.pod[1] for one in run.passes for i in one.readings.intervals if i.restarted}
    assert restarted == {"active-0"}
    assert not np.isnan(run.requests.finished).any()


def test_a_replaced_pod_comes_back_under_a_new_name() -> None:
    run = simulate(a_scenario(faults=(Fault("replaced", 300.0, 30.0, 0),)), static(2), 1)

    names = [i.pod[1] for one in run.passes for i in one.readings.intervals]
    assert names[0] == "active-0"
    assert names[-1] == "active-1"


def test_a_rolled_pod_gives_no_capacity_for_180_seconds() -> None:
    run = simulate(a_scenario(faults=(Fault("rolled", 200.0, pod=0),), slices=(Slice(pods=2),)), static(2), 1)

    down = np.isnan(run.traces[0].rows[:, UP])
    assert down.sum() == pytest.approx(180, abs=2)


def test_a_deaf_pod_keeps_its_table_and_reports_it() -> None:
    run = simulate(a_scenario(faults=(Fault("deaf", 10.0),)), pushing((5, flat(4))), 1)

    assert set(run.traces[0].rows[:, IN_DEPTH]) <= {0.0, 2.0}
    assert run.passes[-1].readings.versions["simulated", "active-0"] == (2, 1)


def test_a_lying_pod_reports_the_new_version_and_keeps_the_old_table() -> None:
    run = simulate(a_scenario(faults=(Fault("lying", 10.0),)), pushing((5, flat(4))), 1)

    assert set(run.traces[0].rows[:, IN_DEPTH]) <= {0.0, 2.0}
    assert run.passes[-1].readings.versions["simulated", "active-0"] == (2, 2)


@pytest.mark.parametrize("kind", ["broken-file", "old-file", "foreign-file"])
def test_a_file_that_must_be_refused_changes_nothing(kind: FaultKind) -> None:
    run = simulate(a_scenario(faults=(Fault(kind, 300.0),)), static(3), 1)

    assert set(run.traces[0].rows[:, IN_DEPTH]) <= {0.0, 3.0}
    assert run.passes[-1].readings.versions["simulated", "active-0"] == (2, 1)


def test_lost_scrapes_leave_longer_intervals_and_no_wrong_counts() -> None:
    whole = simulate(a_scenario(), static(2), 1)
    lossy = simulate(a_scenario(telemetry=Telemetry(lost=0.1)), static(2), 1)

    assert len(intervals(lossy)) < len(intervals(whole))
    assert rate(lossy) == pytest.approx(rate(whole), rel=0.1)


def test_nothing_but_holds_comes_out_of_an_idle_pool() -> None:
    run = simulate(a_scenario(peak=0.0001), OURS, 1)

    assert len(holds(run)) == len(run.passes)


def intervals(run: Run) -> list[float]:
    return [i.seconds for one in run.passes for i in one.readings.intervals]


def rate(run: Run) -> float:
    found = [i for one in run.passes for i in one.readings.intervals]
    return sum(i.counts.generation_tokens or 0.0 for i in found) / sum(i.seconds for i in found)
