"""Whole runs: what pods, traffic and actuation do, seen from outside."""

import numpy as np
import pytest
from tests.unit.simulator.scenes import a_scenario, latencies, pushing, static

from specfleet.api.schedule import flat
from specfleet.simulator.capacity import hard_off_capacity
from specfleet.simulator.run import simulate
from specfleet.simulator.scenario import Scenario, Slice
from specfleet.simulator.state import IN_DEPTH


def test_a_saturated_pod_without_speculation_completes_what_the_reference_does() -> None:
    assert hard_off_capacity(Scenario("base")) == pytest.approx(6.16, rel=0.05)


def test_the_same_seed_gives_the_same_run_and_another_seed_another_one() -> None:
    scenario = a_scenario()

    one, same, other = (simulate(scenario, static(2), seed) for seed in (1, 1, 2))

    assert np.array_equal(one.requests.finished, same.requests.finished)
    assert [p.readings for p in one.passes] == [p.readings for p in same.passes]
    assert len(one.requests.arrival) != len(other.requests.arrival)


def test_two_policies_serve_the_same_requests() -> None:
    scenario = a_scenario()

    shallow, deep = simulate(scenario, static(1), 1), simulate(scenario, static(5), 1)

    assert np.array_equal(shallow.requests.arrival, deep.requests.arrival)
    assert np.array_equal(shallow.requests.output, deep.requests.output)


def test_every_request_is_served_to_its_end() -> None:
    run = simulate(a_scenario(), static(2), 1)

    assert not np.isnan(run.requests.finished).any()
    assert np.array_equal(run.requests.generated, run.requests.output)
    assert (latencies(run) > 0).all()


def test_tokens_per_step_follow_from_survival() -> None:
    run = simulate(a_scenario(), static(2), 1)
    counts = [interval.counts for one in run.passes for interval in one.readings.intervals]
    drafts = sum(count.drafts or 0.0 for count in counts)
    accepted = [sum(count.accepted_positions[i] for count in counts) for i in (1, 2)]

    # Requests .2 code, .6 chat, .2 retrieval; with E_2 2.51, 1.97, 1.84 their steps are .162, .618, .220.
    assert accepted[0] / drafts == pytest.approx(0.162 * 0.82 + 0.618 * 0.60 + 0.220 * 0.55, abs=0.015)
    assert accepted[1] / drafts == pytest.approx(0.162 * 0.69 + 0.618 * 0.37 + 0.220 * 0.29, abs=0.015)


def test_a_push_is_in_force_within_one_to_ten_seconds() -> None:
    run = simulate(a_scenario(), pushing((5, flat(4))), 1)
    written = run.documents[1][0]
    depths = run.traces[0].rows[:, IN_DEPTH]
    busy = run.traces[0].rows[:, 0] > 0
    changed = float(np.flatnonzero((depths == 4) & busy)[0])

    assert written + 1.0 <= changed + 1.0
    assert changed <= written + 11.0


def test_hard_off_pods_never_draft_and_hold_more_requests_in_their_cache() -> None:
    slices = (Slice(), Slice("control", loaded=False))
    run = simulate(a_scenario(slices=slices), static(3), 1)
    last = {one.pod[1]: one.counts for p in run.passes for one in p.readings.intervals}

    assert last["control-1"].drafts == 0
    assert last["control-1"].steps[0] > 0
    assert (last["active-0"].drafts or 0) > 0


def test_a_slower_canary_takes_as_much_longer_as_it_is_slower() -> None:
    slices = (Slice(), Slice("canary", table=flat(2), slower=1.2))
    run = simulate(a_scenario(slices=slices, peak=0.3), static(2), 1)
    home, spent = run.requests.home, run.requests.last - run.requests.first
    per_token = spent.copy() / np.maximum(1, run.requests.generated - 1)

    ratio = per_token[home == 1].mean() / per_token[home == 0].mean()

    assert ratio == pytest.approx(1.24, abs=0.06)  # the queue amplifies it


def test_pods_share_the_traffic_evenly() -> None:
    run = simulate(a_scenario(slices=(Slice(pods=3),), seconds=300), static(2), 1)
    shares = np.bincount(run.requests.home, minlength=3) / len(run.requests.home)

    assert shares == pytest.approx([1 / 3] * 3, abs=0.05)
