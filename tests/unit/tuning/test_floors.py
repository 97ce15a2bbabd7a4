"""Safety floors: design/tuning.md, section 10.1."""

import math

import pytest

from specfleet.api.objectives import EffectiveObjectives
from specfleet.api.schedule import Row, flat
from specfleet.tuning.bins import bins
from specfleet.tuning.floors import Pressure, burn, floors, late_first_tokens, queue_is_slow

OBJECTIVES = EffectiveObjectives(None, 2.0, 1.0, 0.10)
BINS = bins(64)


@pytest.mark.parametrize(
    ("headroom", "preemptions", "depth"),
    [
        pytest.param(0.30, 0, None, id="healthy"),
        pytest.param(0.10, 0, None, id="at-the-limit"),
        pytest.param(0.09, 0, 1, id="under-the-limit"),
        pytest.param(0.04, 0, 0, id="under-half-of-it"),
        pytest.param(0.30, 2, 1, id="preemptions"),
        pytest.param(None, 0, None, id="no-data"),
    ],
)
def test_kv_pressure_limits_depth(headroom: float | None, preemptions: float, depth: int | None) -> None:
    found = floors(OBJECTIVES, [Pressure(0.0, headroom, preemptions)], BINS)

    assert (found[-1].depth if found else None) == depth


def test_the_worst_of_the_last_minutes_counts() -> None:
    recent = [Pressure(0.0, 0.08, 0, batch=4.0), Pressure(15.0, 0.5, 0, batch=2.0)]

    (found,) = floors(OBJECTIVES, recent, BINS)

    assert found.reason == "KV headroom 8% is under 10%: depth <= 1 from 3 requests"


def test_a_floor_begins_below_the_batch_that_was_in_danger_whatever_the_load_is_now() -> None:
    # Seven tenths of 43 is 30, in the bin 28 to 39.
    recent = [Pressure(at, 0.08, 0, batch=batch) for at, batch in ((0.0, 53.0), (15.0, 43.0))]

    (found,) = floors(OBJECTIVES, [*recent, Pressure(30.0, 0.5, 0, batch=3.0)], BINS)

    assert found.from_requests == 28
    assert found.applied(flat(5), 64) == (Row(27, 5), Row(None, 1))
    assert found.applied(flat(0), 64) == flat(0)


def test_the_tightest_batches_go_to_depth_0_and_those_below_them_to_1() -> None:
    recent = [Pressure(0.0, 0.08, 0, batch=22.0), Pressure(15.0, 0.04, 0, batch=45.0)]
    table = flat(5)

    for one in floors(OBJECTIVES, recent, BINS):
        table = one.applied(table, 64)

    assert table == (Row(11, 5), Row(27, 1), Row(None, 0))


def test_no_floor_asks_for_a_depth_0_that_takes_more_of_the_engine_than_depth_1() -> None:
    (found,) = floors(OBJECTIVES, [Pressure(0.0, 0.04, 0, batch=45.0)], BINS, off=1)

    assert (found.depth, found.from_requests) == (1, 28)


@pytest.mark.parametrize(
    ("delay", "waiting", "rate", "slow"),
    [
        pytest.param(0.2, 0, 5.0, False, id="short"),
        pytest.param(1.2, 0, 5.0, True, id="long-delay"),
        pytest.param(None, 30, 5.0, True, id="a-stuck-queue-records-no-delay"),
        pytest.param(None, 3, 5.0, False, id="a-few-wait"),
    ],
)
def test_a_queue_is_slow_by_delay_or_by_length(
    delay: float | None, waiting: float, rate: float, slow: bool
) -> None:
    assert queue_is_slow(OBJECTIVES, delay, waiting, rate) is slow


@pytest.mark.parametrize(
    ("bound", "late"),
    [
        pytest.param(1.0, 30.0, id="a-bound-of-the-layout"),
        pytest.param(0.7, 30.0, id="P7-the-next-bound-in-place-of-one-between"),
        pytest.param(5.0, 0.0, id="P7-over-the-largest-nothing-is-known-to-be-late"),
    ],
)
def test_late_first_tokens_are_those_over_the_bound(bound: float, late: float) -> None:
    assert late_first_tokens({0.5: 40.0, 1.0: 70.0, math.inf: 100.0}, bound) == (100.0, late)


def test_the_budget_burns_by_late_tokens_over_the_five_percent_that_p95_allows() -> None:
    recent = [Pressure(0.0, None, 0, 100.0, 4.0), Pressure(15.0, None, 0, 100.0, 16.0)]

    assert burn(recent) == pytest.approx(2.0)


def test_a_handful_of_requests_burns_nothing() -> None:
    assert burn([Pressure(0.0, None, 0, 10.0, 10.0)]) is None
