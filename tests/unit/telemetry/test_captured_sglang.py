"""What is read of SGLang: 4 requests, 100 steps of 40 ms each at depth 3, 2.2 tokens a step.

The pages are written by the collector of the released package, which was not run: dev/captures/sglang.py.
"""

import pytest
from tests.unit.telemetry.pages import POD, SCRAPE, interval, scraped

from specfleet.api.schedule import flat
from specfleet.engines.metrics_sglang import SGLANG
from specfleet.telemetry.samples import FleetSamples
from specfleet.telemetry.source import Series
from specfleet.tuning.attribution import attributed
from specfleet.tuning.interval import PodInterval

IDLE, RUNNING, ENDED = (f"sglang-0.5.23-{name}" for name in ("idle", "running", "ended"))
PRIORITY = "sglang-0.5.23-priority"
TOKENS = 4 * 110  # in 50 steps


def test_e5_tokens_are_counted_while_their_requests_run() -> None:
    counts = interval(SGLANG, IDLE, RUNNING).counts

    assert (counts.decode_tokens, counts.first_tokens) == (TOKENS, 4)
    assert (counts.finished_tokens, counts.completions) == (0, 0)


@pytest.mark.fault("verl-project/verl#7543")
def test_without_the_count_of_further_tokens_there_are_no_tokens_and_not_the_first_ones_alone() -> None:
    samples = FleetSamples(SCRAPE)
    later = "sglang:inter_token_latency_seconds"
    for at, name in ((0.0, RUNNING), (SCRAPE, ENDED), (2 * SCRAPE, ENDED), (3 * SCRAPE, ENDED)):
        page = [one for one in scraped(name, at) if not one.labels["__name__"].startswith(later)]
        read = samples.advance(page, {POD: SGLANG}, at + 1.0)
    (interval,) = read.intervals

    assert (interval.counts.generation_tokens, interval.counts.decode_tokens) == (None, None)
    # Nor is a pod of which nobody knows whether it gives tokens taken for one that hangs.
    assert not interval.stuck


def test_e1_the_latency_of_a_token_is_per_token_here() -> None:
    counts = interval(SGLANG, IDLE, RUNNING).counts

    assert counts.inter_token_seconds == pytest.approx(4 * 50 * 0.04)
    assert counts.inter_token_events is None


def test_requests_that_end_bring_their_tokens_and_steps_at_once() -> None:
    counts = interval(SGLANG, RUNNING, ENDED).counts

    assert counts.finished_tokens == 4 * (2 * 110 + 1)
    assert (counts.completions, counts.finished_verifications, counts.preemptions) == (4, 400, 1)


def test_levels_are_sums_over_ranks_and_the_total_of_priorities() -> None:
    alone, priority = (interval(SGLANG, name, name) for name in (RUNNING, PRIORITY))

    assert (alone.running, alone.waiting) == (4, 0)
    assert priority.running == 4
    assert (alone.kv_usage, alone.kv_capacity_tokens) == (pytest.approx(0.08), 40_000)


def ranks(label: str, *values: str) -> list[Series]:
    """Give the page once more for each further rank."""
    return [
        Series({**series.labels, label: value}, series.samples)
        for series in scraped(RUNNING, 0.0, 15.0)
        if "tp_rank" in series.labels
        for value in values
    ]


@pytest.mark.parametrize(("label", "running"), [("dp_rank", 8), ("tp_rank", 4)])
def test_p14_data_parallel_ranks_add_up_and_tensor_parallel_ones_are_the_same_work(
    label: str, running: float
) -> None:
    samples = FleetSamples(SCRAPE)
    samples.advance(scraped(RUNNING, 0.0), {POD: SGLANG}, 1.0)

    (read,) = samples.advance(ranks(label, "0", "1"), {POD: SGLANG}, 16.0).intervals

    assert (read.running, read.kv_usage) == (running, pytest.approx(0.08))
    assert read.kv_capacity_tokens == 10_000 * running


def test_tokens_of_a_request_with_a_priority_count() -> None:
    samples = FleetSamples(SCRAPE)
    before = scraped(PRIORITY, 0.0)
    after = [Series(series.labels, ((15.0, 2 * series.samples[0][1]),)) for series in before]

    samples.advance(before, {POD: SGLANG}, 1.0)
    (read,) = samples.advance(after, {POD: SGLANG}, 16.0).intervals

    assert read.counts.decode_tokens == 4 * 50


def passes(*pages: str) -> list[PodInterval]:
    """Scrape one page after the other, and give every interval."""
    samples, found = FleetSamples(SCRAPE), []
    for number, name in enumerate(pages):
        at = number * SCRAPE
        found += samples.advance(scraped(name, at), {POD: SGLANG}, at + 1.0).intervals
    return found


@pytest.mark.fault("sglang#10672", "sglang#4244", "sglang#26608")
def test_p12_a_sticky_gauge_is_believed_only_while_it_is_written_and_requests_run() -> None:
    read = passes(IDLE, RUNNING, RUNNING, RUNNING, RUNNING, ENDED)

    # It moved at the first interval; after two more without a change it may be stale.
    assert [one.accepted_length for one in read] == [2.2, 2.2, 2.2, None, None]
    assert read[-1].running == 0


@pytest.mark.fault("sglang#23942", "sglang#25940", "vllm#16035")
def test_e6_depth_is_the_number_of_steps_and_no_draft_token_more() -> None:
    read = passes(RUNNING, RUNNING, RUNNING)
    moving = passes(IDLE, RUNNING, RUNNING)

    assert [one.depth for one in moving] == [3, 3]
    assert [one.depth for one in read] == [None, None]  # nothing says that the gauges are alive


def test_what_sglang_does_not_count_follows_from_depth_and_accepted_length() -> None:
    read = passes(IDLE, RUNNING)[0]

    told = attributed(read, flat(3), variable_drafts=False).interval.counts

    assert told.sequence_steps == pytest.approx({3: 4 * 50})
    assert told.accepted_tokens == pytest.approx(1.2 * 4 * 50)
    assert told.step_seconds[3] / told.steps[3] == pytest.approx(0.04)
    assert told.draft_tokens == pytest.approx(3 * 4 * 50)


def test_without_speculation_every_step_is_at_depth_zero() -> None:
    read = passes("sglang-0.5.23-no-speculation", PRIORITY)[0]

    told = attributed(read, flat(3), variable_drafts=False).interval.counts

    assert read.depth == 0
    assert told.sequence_steps == {0: 4 * 50}
