"""Figures for status: design/tuning.md, section 3.3."""

import math
from dataclasses import replace

import pytest
from tests.unit.tuning.bench import EPOCH

from specfleet.api.schedule import Document, flat
from specfleet.tuning.evidence import Evidence, usable
from specfleet.tuning.interval import Counts, PodInterval, PodKey
from specfleet.tuning.measure import Figures, figures, quantile
from specfleet.tuning.memory import Memory

A, B = ("llm", "a"), ("llm", "b")


def measured(*intervals: PodInterval) -> Figures | None:
    pods: frozenset[PodKey] = frozenset(interval.pod for interval in intervals)
    document = Document(1, 1, 5, flat(2), EPOCH)
    evidence = Evidence(document, frozenset({"f"}), pods, pods, intervals=intervals)
    return figures(evidence, usable(evidence), Memory())


def an_interval(pod: PodKey, counts: Counts, **more: float) -> PodInterval:
    return PodInterval(pod, 0.0, 10.0, counts, **more)  # type: ignore[arg-type]


def test_e1_time_per_token_is_decode_seconds_over_tokens_and_no_mean_of_events() -> None:
    counts = Counts(generation_tokens=1010, first_tokens=10, inter_token_seconds=9.0, inter_token_events=400)

    found = measured(an_interval(A, counts))

    assert found is not None
    assert found.token_seconds == pytest.approx(0.009)


def test_p13_a_busy_and_an_idle_pod_are_not_averaged() -> None:
    busy = Counts(draft_tokens=1000, accepted_tokens=500)
    idle = Counts(draft_tokens=10, accepted_tokens=10)

    found = measured(an_interval(A, busy), an_interval(B, idle))

    assert found is not None
    assert found.acceptance_rate == pytest.approx(510 / 1010)


def test_e4_the_accepted_length_counts_steps_without_a_draft() -> None:
    positions = {"draft_positions": {1: 38, 2: 39}, "accepted_positions": {1: 38, 2: 21}}
    counts = Counts(steps={2: 99}, sequence_steps={2: 99}, **positions)

    found = measured(an_interval(A, counts))

    assert found is not None
    assert found.accepted_length == pytest.approx(1 + 59 / 99)


def test_the_mean_depth_is_that_of_the_steps() -> None:
    positions = {"draft_positions": {1: 100}, "accepted_positions": {1: 60}}
    counts = Counts(steps={5: 75, 1: 25}, sequence_steps={5: 75, 1: 25}, **positions)

    found = measured(an_interval(A, counts))

    assert found is not None
    assert found.mean_depth == pytest.approx(4.0)


def test_kv_headroom_is_that_of_the_fullest_pod() -> None:
    found = measured(an_interval(A, Counts(), kv_usage=0.2), an_interval(B, Counts(), kv_usage=0.7))

    assert found is not None
    assert found.kv_headroom == pytest.approx(0.3)


def test_p11_soft_off_has_no_acceptance_and_not_an_acceptance_of_zero() -> None:
    found = measured(an_interval(A, Counts(steps={0: 100}, sequence_steps={0: 100}, draft_tokens=0.0)))

    assert found is not None
    assert (found.acceptance_rate, found.accepted_length, found.drafted) == (None, 1.0, False)


def test_p10_a_stuck_pod_is_left_out_of_all_sums() -> None:
    stuck = replace(an_interval(B, Counts(), kv_usage=0.99), stuck=True)

    found = measured(an_interval(A, Counts(), kv_usage=0.2), stuck)

    assert found is not None
    assert found.kv_headroom == pytest.approx(0.8)


def test_p6_a_quantile_without_observations_or_without_an_open_bucket_is_no_data() -> None:
    assert quantile({}, 0.5) is None
    assert quantile({0.1: 0.0, math.inf: 0.0}, 0.5) is None
    assert quantile({0.1: 5.0}, 0.5) is None


def test_p6_a_quantile_is_linear_inside_its_bucket_and_capped_at_the_largest_bound() -> None:
    assert quantile({0.01: 100.0, math.inf: 100.0}, 0.5) == pytest.approx(0.005)
    assert quantile({0.01: 100.0, math.inf: 100.0}, 0.95) == pytest.approx(0.0095)
    assert quantile({1.0: 1.0, 2.0: 2.0, math.inf: 100.0}, 0.5) == 2.0
