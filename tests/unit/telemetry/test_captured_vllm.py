"""What is read of a real vLLM 0.32: the engine traps of design/tuning.md, section 3.5, on captured pages."""

import pytest
from tests.unit.telemetry.pages import POD, SCRAPE, interval, names, page, scraped

from specfleet.api.schedule import Row, flat
from specfleet.engines.metrics_vllm import NOT_SCRAPED, VLLM
from specfleet.telemetry.samples import FleetSamples
from specfleet.telemetry.source import Series
from specfleet.tuning.attribution import attributed, kept_share
from specfleet.tuning.interval import Counts, PodInterval
from specfleet.tuning.survival import Survival

IDLE, AFTER = "vllm-0.32-metrics-idle", "vllm-0.32-metrics-after"
DRAFT_IDLE, DRAFT = "vllm-0.32.0-draft-idle", "vllm-0.32.0-draft-1-and-4"
NGRAM, ABORTED = "vllm-0.32.0-ngram-1-and-4", "vllm-0.32.0-ngram-aborted"
ENDED = "vllm:request_success_total"
ONE_AND_FOUR = (Row(1, 4), Row(None, 1))


def test_the_counts_of_a_real_page_are_the_ones_that_it_shows() -> None:
    counts = interval(VLLM, IDLE, AFTER).counts

    assert (counts.drafts, counts.draft_tokens, counts.accepted_tokens) == (38, 77, 59)
    assert (counts.generation_tokens, counts.first_tokens, counts.inter_token_events) == (164, 18, 99)
    assert counts.accepted_positions == {1: 35, 2: 12, 3: 9, 4: 3}
    assert (counts.completions, counts.preemptions) == (18, 0)
    assert counts.steps == {}


@pytest.mark.fault("vllm#19776", "vllm#47382", "vllm#52853", "vllm#55283")
def test_e1_time_per_token_comes_from_sums_while_the_latency_of_events_says_more() -> None:
    counts = interval(VLLM, DRAFT_IDLE, DRAFT).counts

    assert counts.decode_tokens == 329
    assert counts.inter_token_seconds == pytest.approx(19.145, abs=1e-3)
    per_event, per_token = 19.145 / 124, 19.145 / 329
    assert per_event > 2.5 * per_token


def test_e4_the_formula_of_the_counters_says_2_55_tokens_a_step_where_1_47_were_given() -> None:
    read = interval(VLLM, IDLE, AFTER)
    counts = read.counts
    assert counts.accepted_tokens and counts.drafts and counts.inter_token_events and counts.decode_tokens

    told = attributed(read, flat(4), variable_drafts=True).interval.counts
    learnt = Survival().plus(told)

    assert 1 + counts.accepted_tokens / counts.drafts == pytest.approx(2.55, abs=0.005)
    assert counts.decode_tokens / counts.inter_token_events == pytest.approx(1.47, abs=0.005)
    assert learnt.tokens_per_step(4) == pytest.approx(146 / 99)


def test_e4_the_correction_of_the_design_is_306_thousandths() -> None:
    counts = interval(VLLM, IDLE, AFTER).counts
    kept = kept_share(counts)
    assert kept is not None and counts.drafts and counts.inter_token_events

    # eta = (R - 1) / (accepted / drafts): what was kept, and steps without a proposal.
    assert kept * counts.drafts / counts.inter_token_events == pytest.approx(0.306, abs=0.0005)


def test_two_depths_are_told_apart_by_stock_counters_exactly() -> None:
    read = interval(VLLM, DRAFT_IDLE, DRAFT)

    told = attributed(read, ONE_AND_FOUR, variable_drafts=False)

    # The draft equals the target, so the counts of positions 2 to 4 say how many drafts were deep: 31.
    assert read.counts.accepted_positions == {1: 124, 2: 31, 3: 31, 4: 31}
    assert told.interval.counts.sequence_steps == pytest.approx({4: 31, 1: 93})
    assert told.fits


@pytest.mark.fault("Blaizzy/mlx-vlm#2324")
def test_tokens_cut_after_they_were_accepted_are_not_learnt_from() -> None:
    read = interval(VLLM, DRAFT_IDLE, DRAFT)

    told = attributed(read, ONE_AND_FOUR, variable_drafts=False).interval.counts

    # 217 accepted, 12 of them cut: 329 tokens in 124 events.
    assert sum(told.accepted_positions.values()) == pytest.approx(329 - 124)


def test_n_gram_drafts_of_two_rows_are_not_told_apart_since_each_may_be_short() -> None:
    read = interval(VLLM, "vllm-0.32.0-draft-idle", NGRAM)
    between = PodInterval(read.pod, 0.0, read.counts.inter_token_seconds or 0.0, read.counts)

    assert attributed(between, ONE_AND_FOUR, variable_drafts=True).interval.counts.steps == {}


def test_a_client_that_went_away_is_no_completion_and_no_abort() -> None:
    counts = interval(VLLM, NGRAM, ABORTED).counts

    assert (counts.first_tokens, counts.generation_tokens, counts.completions) == (1, 1, 0)
    ended = {own["finished_reason"]: n for name, own, n in page(ABORTED) if name == ENDED}
    assert ended == {"length": 12, "stop": 0, "abort": 0, "error": 0, "repetition": 0}


def test_p11_a_pod_without_speculation_has_no_count_of_drafts() -> None:
    counts = interval(VLLM, "vllm-0.32.0-no-speculation", "vllm-0.32.0-no-speculation").counts

    assert (counts.drafts, counts.draft_tokens, counts.accepted_positions) == (None, None, {})


def test_the_size_of_the_cache_is_a_label() -> None:
    read = interval(VLLM, DRAFT_IDLE, DRAFT)

    assert read.kv_usage == 0.0
    assert read.kv_capacity_tokens == 23296  # kv_cache_size_tokens of the page


def a_second_port(at: tuple[float, ...], steps: tuple[float, ...]) -> list[Series]:
    own = {"namespace": POD[0], "pod": POD[1], "job": "llm/chat", "instance": "10.0.0.7:9404"}
    steps_total = {**own, "__name__": "specfleet_steps_total", "depth": "4"}
    version = {**own, "__name__": "specfleet_schedule_version", "fence": "7"}
    return [
        Series(steps_total, tuple(zip(at, steps, strict=True))),
        Series(version, tuple((one, 12.0) for one in at)),
    ]


def test_a_second_port_of_the_pod_is_joined_at_the_time_of_the_engines_scrape() -> None:
    samples = FleetSamples(SCRAPE)
    engine = {"job": "llm/chat", "instance": "10.0.0.7:8000"}
    first = [*scraped(DRAFT_IDLE, 0.0, **engine), *a_second_port((-5.0, 10.0), (0.0, 90.0))]
    second = [
        *scraped(DRAFT, 15.0, **engine),
        *a_second_port((-5.0, 10.0, 25.0), (0.0, 90.0, 240.0)),
    ]

    samples.advance(first, {POD: VLLM}, 11.0)
    (read,) = samples.advance(second, {POD: VLLM}, 26.0).intervals

    # At 0: a third of the way from 0 to 90. At 15: a third from 90 to 240.
    assert read.counts.steps == {4: pytest.approx(140.0 - 30.0)}
    assert (read.counts.drafts, read.end, read.version, read.aligned) == (124, 15.0, (7, 12), False)


def test_an_engine_scrape_that_the_second_port_has_not_caught_up_with_waits() -> None:
    samples = FleetSamples(SCRAPE)
    engine = {"job": "llm/chat", "instance": "10.0.0.7:8000"}
    answer = [*scraped(DRAFT, 0.0, 15.0, **engine), *a_second_port((-5.0, 10.0), (0.0, 90.0))]

    samples.advance(answer, {POD: VLLM}, 16.0)
    (read,) = samples.advance(
        [*scraped(DRAFT, 15.0, **engine), *a_second_port((10.0, 25.0), (90.0, 240.0))], {POD: VLLM}, 26.0
    ).intervals

    assert (read.start, read.end) == (0.0, 15.0)


def test_p9_a_second_port_that_is_no_longer_scraped_does_not_hold_up_the_engines_own() -> None:
    samples = FleetSamples(SCRAPE)
    engine = {"job": "llm/chat", "instance": "10.0.0.7:8000"}
    old = a_second_port((-25.0, -10.0), (0.0, 90.0))

    samples.advance([*scraped(DRAFT_IDLE, 0.0, **engine), *old], {POD: VLLM}, 1.0)
    (read,) = samples.advance([*scraped(DRAFT, 15.0, **engine), *old], {POD: VLLM}, 16.0).intervals

    assert (read.counts.drafts, read.counts.steps, read.version) == (124, {}, None)


def test_a_plug_in_that_follows_no_file_gives_its_reason() -> None:
    own = {"namespace": POD[0], "pod": POD[1], "job": "llm/chat", "instance": "10.0.0.7:9404"}
    live = Series(
        {**own, "__name__": "specfleet_schedule_live", "reason": "engine_version"}, ((0, 0), (20, 0))
    )
    engine = {"job": "llm/chat", "instance": "10.0.0.7:8000"}
    samples = FleetSamples(SCRAPE)

    samples.advance([*scraped(DRAFT_IDLE, 0.0, **engine), live], {POD: VLLM}, 1.0)
    (read,) = samples.advance([*scraped(DRAFT, 15.0, **engine), live], {POD: VLLM}, 21.0).intervals

    assert (read.not_live, read.version) == ("engine_version", None)


def test_a_second_port_that_is_not_there_leaves_the_stock_counters() -> None:
    read = interval(VLLM, DRAFT_IDLE, DRAFT)

    assert (read.version, read.counts.steps, read.aligned) == (None, {}, True)
    assert read.not_live == NOT_SCRAPED
    assert not [name for name in names(DRAFT) if name.startswith("specfleet_")]


def test_a_delivered_position_replaces_the_accepted_one_that_was_cut() -> None:
    counts = Counts(
        steps={2: 10},
        sequence_steps={2: 10},
        accepted_positions={1: 9, 2: 8},
        delivered_positions={1: 9, 2: 5},
    )

    told = attributed(PodInterval(POD, 0.0, 15.0, counts), flat(2), variable_drafts=False)

    assert told.interval.counts.accepted_positions == {1: 9, 2: 5}
