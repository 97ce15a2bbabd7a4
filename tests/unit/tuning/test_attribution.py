"""Steps by depth where the engine does not count them: design/tuning.md, sections 3.3, 3.5 and 4."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from specfleet.api.schedule import Document, Row, Table, flat
from specfleet.tuning.attribution import (
    acceptance_of,
    attributed,
    kept_share,
    near_depths,
    tokens_per_step,
    two_depths,
)
from specfleet.tuning.evidence import Evidence, usable
from specfleet.tuning.interval import Counts, PodInterval
from specfleet.tuning.survival import Survival

POD = ("llm", "chat-0")
BY_LOAD = (Row(8, 4), Row(32, 1), Row(None, 0))


def stock(
    *,
    events: float = 1000,
    drafts: float = 1000,
    draft_tokens: float,
    extra: float = 0.0,
    batch: float = 4.0,
    accepted: tuple[float, ...] = (0, 0, 0, 0),
) -> PodInterval:
    """Ten seconds of a stock vLLM; ``extra`` tokens beyond one for each event."""
    counts = Counts(
        drafts=drafts,
        draft_tokens=draft_tokens,
        accepted_tokens=sum(accepted),
        accepted_positions=dict(enumerate(accepted, 1)),
        generation_tokens=events + extra + 5,
        first_tokens=5,
        inter_token_seconds=10.0 * batch,
        inter_token_events=events,
    )
    return PodInterval(POD, 0.0, 10.0, counts)


def steps(interval: PodInterval, table: Table, *, variable: bool = False) -> dict[int, float]:
    return dict(attributed(interval, table, variable).interval.counts.sequence_steps)


def test_the_example_of_two_depths_gives_400_deep_drafts() -> None:
    assert two_depths(1000, 2200, 1, 4) == (600, 400)


@pytest.mark.fault("vllm#9565")
def test_each_position_is_divided_by_the_drafts_of_depths_that_reach_it() -> None:
    read = stock(draft_tokens=2200, accepted=(800, 200, 100, 50), extra=1150)

    learnt = Survival().plus(attributed(read, (Row(8, 4), Row(None, 1)), False).interval.counts)

    assert learnt.by_position() == pytest.approx((0.8, 0.5, 0.25, 0.125))


def test_events_without_a_draft_are_steps_at_depth_zero_if_the_table_has_it() -> None:
    read = stock(events=1500, draft_tokens=2200)

    assert steps(read, BY_LOAD) == pytest.approx({4: 400, 1: 600, 0: 500})


@pytest.mark.parametrize(
    ("tokens", "fits"), [(1000 * 4 * 0.985, True), (1000 * 4 * 0.97, False), (5000, False)]
)
def test_drafts_of_a_full_length_fit_their_depth_within_two_percent(tokens: float, fits: bool) -> None:
    assert attributed(stock(draft_tokens=tokens), flat(4), False).fits is fits


def test_three_depths_around_the_load_are_not_told_apart() -> None:
    table = (Row(3, 5), Row(4, 3), Row(None, 1))

    assert steps(stock(draft_tokens=3000), table) == {}
    assert near_depths(table, 4.0) == {5, 3, 1}


def test_a_drafter_of_any_length_needs_one_depth_for_the_load() -> None:
    read = stock(events=1000, drafts=300, draft_tokens=700, batch=4.0)

    assert steps(read, BY_LOAD, variable=True) == {4: 1000}
    assert steps(replace(read, end=5.0), BY_LOAD, variable=True) == {}  # eight at once: the row's border
    assert steps(replace(read, running=20.0), BY_LOAD, variable=True) == {}  # and then twenty


def test_an_engine_that_drafts_nothing_ran_at_depth_zero_whatever_the_table_says() -> None:
    assert steps(stock(drafts=0, draft_tokens=0), flat(4)) == {0: 1000}


def test_step_time_is_known_only_if_nearly_all_steps_had_one_depth() -> None:
    pure, mixed = stock(draft_tokens=4000), stock(draft_tokens=2200)

    timed = attributed(pure, flat(4), False).interval.counts

    # Four at once for ten seconds and 1000 events: 250 steps of 40 ms.
    assert (timed.steps, timed.step_seconds) == ({4: 250}, {4: pytest.approx(10.0)})
    assert attributed(mixed, BY_LOAD, False).interval.counts.step_seconds == {}


def test_drafted_positions_of_any_length_add_up_and_are_never_under_the_accepted() -> None:
    read = stock(events=99, drafts=38, draft_tokens=77, accepted=(35, 12, 9, 3), extra=47)

    told = attributed(read, flat(4), True).interval

    assert sum(told.counts.draft_positions.values()) == pytest.approx(77)
    assert all(told.counts.draft_positions[i] >= n for i, n in told.counts.accepted_positions.items())
    assert told.positions_assumed


@pytest.mark.parametrize("drafted", [(1000, 1000, 1000), (400, 300, 100)], ids=["model", "n-gram"])
def test_stock_counters_of_one_depth_teach_what_exact_ones_do(drafted: tuple[float, ...]) -> None:
    accepted = tuple(0.6 * n for n in drafted)
    exact = Counts(
        steps={3: 250},
        step_seconds={3: 10.0},
        sequence_steps={3: 1000},
        draft_positions=dict(enumerate(drafted, 1)),
        accepted_positions=dict(enumerate(accepted, 1)),
    )
    read = stock(drafts=drafted[0], draft_tokens=sum(drafted), accepted=accepted, extra=sum(accepted))

    told = attributed(read, flat(3), variable_drafts=drafted[0] != drafted[2]).interval.counts

    one, other = Survival().plus(exact), Survival().plus(told)
    assert other.tokens_per_step(3) == pytest.approx(one.tokens_per_step(3))
    assert other.drafts_per_step(3) == pytest.approx(one.drafts_per_step(3))
    assert (told.steps, told.step_seconds) == (exact.steps, pytest.approx(exact.step_seconds))


def test_the_kept_share_is_limited_as_the_correction_is() -> None:
    assert kept_share(Counts()) is None
    assert kept_share(stock(draft_tokens=10, accepted=(10,), extra=50).counts) == 1.02
    assert kept_share(stock(draft_tokens=10, accepted=(10,), extra=-5).counts) == 0.0


@pytest.mark.parametrize(
    ("alpha", "depth", "length"),
    [(0.6, 3, 2.176), (0.8, 5, 3.68928), (0.0, 4, 1.0), (1.0, 3, 4.0)],
)
def test_acceptance_is_solved_from_the_accepted_length(alpha: float, depth: int, length: float) -> None:
    # AL = (1 - alpha^(k+1)) / (1 - alpha); 4 where all of 3 are accepted.
    assert acceptance_of(length, depth) == pytest.approx(alpha, abs=1e-6)


def from_gauges(depth: float | None, length: float | None, **counts: float) -> PodInterval:
    own = Counts(inter_token_seconds=40.0, generation_tokens=2010, first_tokens=10, **counts)  # type: ignore[arg-type]
    return PodInterval(POD, 0.0, 10.0, own, depth=depth, accepted_length=length)


def test_an_engine_without_draft_counters_gives_steps_by_its_accepted_length() -> None:
    told = attributed(from_gauges(3, 2.176), flat(3), False).interval.counts

    assert told.sequence_steps == pytest.approx({3: 2000 / 2.176})
    assert Survival().plus(told).by_position() == pytest.approx((0.6, 0.36, 0.216), abs=1e-5)
    # Four at once: the step time is the time per token times the accepted length.
    assert told.step_seconds[3] / told.steps[3] == pytest.approx(0.02 * 2.176)


def test_requests_that_ended_tell_the_tokens_of_a_step_better_than_a_gauge() -> None:
    ended = from_gauges(3, 1.5, finished_tokens=1050, completions=50, finished_verifications=400)

    assert tokens_per_step(ended) == 2.5
    assert (
        tokens_per_step(from_gauges(3, 1.5, finished_tokens=60, completions=1, finished_verifications=20))
        == 1.5
    )


@pytest.mark.fault("sglang#11572", "sglang#13212", "sglang#23530")
@pytest.mark.parametrize("length", [0.5, 1.0, 2.2, 4.0, 9.0])
def test_the_accepted_share_is_of_drafts_only_and_never_above_one(length: float) -> None:
    told = attributed(from_gauges(3, length), flat(3), False).interval.counts

    assert told.accepted_tokens is not None and told.draft_tokens
    assert told.accepted_tokens / told.draft_tokens == pytest.approx(min(1.0, max(0.0, (length - 1) / 3)))


@pytest.mark.parametrize("depth", [None, 2.5])
def test_a_depth_that_is_not_known_or_differs_between_ranks_is_no_depth(depth: float | None) -> None:
    assert attributed(from_gauges(depth, 2.0), flat(3), False).interval.counts.steps == {}


def test_depth_zero_gives_one_token_a_step() -> None:
    told = attributed(from_gauges(0, 0.0), flat(3), False).interval.counts

    assert (told.sequence_steps, told.draft_tokens) == ({0: 2000}, 0)


def test_more_tokens_a_step_than_one_are_not_those_of_depth_zero() -> None:
    assert attributed(from_gauges(0, 2.4), flat(3), False).interval.counts.steps == {}


def evidence(*intervals: PodInterval, issued: float = 0.0, **more: Any) -> Evidence:
    document = Document(1, 1, 4, flat(4), datetime.fromtimestamp(issued, UTC))
    pods = frozenset(interval.pod for interval in intervals)
    return Evidence(document, frozenset({"f"}), pods, pods, intervals=intervals, **more)


def following(interval: PodInterval) -> PodInterval:
    """Let the engine say that it had the document in force throughout."""
    return replace(interval, version_at_start=(1, 1), version=(1, 1))


def test_an_interval_in_which_the_table_changed_is_told_by_none_of_them() -> None:
    read = following(stock(draft_tokens=4000))

    assert usable(evidence(read, issued=5.0)).counts.steps == {}
    assert usable(evidence(read, issued=0.0)).counts.steps == {4: 250}


def test_an_engine_that_does_not_say_which_table_it_runs_by_is_told_by_none() -> None:
    # A plug-in that is switched off, for example: its vLLM runs by its start-up schedule.
    read = stock(draft_tokens=4000)

    assert usable(evidence(read)).counts.steps == {}
    assert usable(evidence(replace(read, version=(1, 1)))).counts.steps == {}


@pytest.mark.parametrize("variable", [False, True], ids=["model", "n-gram"])
def test_pods_that_are_rolled_are_told_each_by_the_table_that_it_started_with(variable: bool) -> None:
    old, new = (replace(stock(draft_tokens=depth * 1000), pod=("llm", f"at-{depth}")) for depth in (2, 4))
    tables = {old.pod: flat(2), new.pod: flat(4)}

    told = usable(evidence(old, new, issued=5.0, tables=tables, variable_drafts=variable))

    assert {one.pod: dict(one.counts.sequence_steps) for one in told.learning} == {
        old.pod: {2: 1000},
        new.pod: {4: 1000},
    }


def test_nothing_is_learnt_of_pods_of_two_configurations() -> None:
    mixed = replace(evidence(following(stock(draft_tokens=4000))), fingerprints=frozenset({"f", "g"}))

    used = usable(mixed)

    assert (used.learning, used.counts.steps, len(used.intervals)) == ((), {}, 1)


def test_drafts_that_no_depth_of_the_table_explains_are_not_learnt_from() -> None:
    used = usable(evidence(following(stock(draft_tokens=2000))))

    assert (used.learning, used.unfit) == ((), {POD})
    assert len(used.intervals) == 1
