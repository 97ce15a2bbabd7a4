"""Physical limits, trap P19: design/tuning.md, section 11."""

from dataclasses import replace

import pytest

from specfleet.tuning.interval import Counts, PodInterval
from specfleet.tuning.limits import violation


def an_interval(counts: Counts | None = None, *, seconds: float = 15.0, kv_usage: float = 0.5) -> PodInterval:
    return PodInterval(("llm", "a"), 0.0, seconds, counts or Counts(), kv_usage=kv_usage)


def some_tokens(count: float, seconds: float) -> Counts:
    return Counts(generation_tokens=count, first_tokens=0.0, inter_token_seconds=seconds)


@pytest.mark.fault("kedacore/keda#7475")
@pytest.mark.parametrize(
    "interval",
    [
        pytest.param(an_interval(kv_usage=1.3), id="kv-use-above-1"),
        pytest.param(an_interval(kv_usage=-0.1), id="kv-use-negative"),
        pytest.param(an_interval(seconds=0.0), id="no-time"),
        pytest.param(replace(an_interval(), not_numbers=("kv",)), id="not-a-number"),
        pytest.param(an_interval(some_tokens(1e6, 10.0)), id="tpot-under-0.2-ms"),
        pytest.param(an_interval(some_tokens(100, 2000.0)), id="tpot-over-10-s"),
        pytest.param(
            an_interval(Counts(accepted_positions={1: 500}, draft_positions={1: 400})), id="S-above-1.02"
        ),
        pytest.param(
            an_interval(
                Counts(accepted_positions={1: 100, 2: 300}, draft_positions={1: 400, 2: 400}),
            ),
            id="S-rises",
        ),
        pytest.param(an_interval(Counts(step_seconds={1: 1e9})), id="impossible-step-time"),
        pytest.param(
            an_interval(Counts(sequence_steps={2: 9}, draft_positions={1: 9, 2: 9})), id="accepted-absent"
        ),
        pytest.param(
            an_interval(Counts(sequence_steps={2: 9}, accepted_positions={1: 0, 2: 0})), id="drafted-absent"
        ),
    ],
)
def test_p19_what_no_engine_can_do_is_a_fault_of_the_data(interval: PodInterval) -> None:
    assert violation(interval) is not None


def test_p19_an_ordinary_interval_passes() -> None:
    counts = Counts(
        steps={2: 700},
        step_seconds={2: 14.5},
        accepted_positions={1: 400, 2: 300},
        draft_positions={1: 500, 2: 310},
        generation_tokens=1400,
        first_tokens=3,
        inter_token_seconds=14.4,
    )

    assert violation(an_interval(counts)) is None


def test_s_may_rise_where_deep_positions_are_proposed_only_on_long_matches() -> None:
    counts = Counts(accepted_positions={1: 500, 2: 480}, draft_positions={1: 1000, 2: 500})

    assert violation(an_interval(counts)) is None
