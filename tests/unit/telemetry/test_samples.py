"""Raw samples to intervals: the traps of design/tuning.md, sections 3.4 and 3.5, by their ids."""

from collections.abc import Sequence

import pytest

from specfleet.engines.metrics_vllm import BUILTIN
from specfleet.telemetry.queries import fleet_query
from specfleet.telemetry.samples import FleetSamples, Readings
from specfleet.telemetry.source import Series
from specfleet.tuning.interval import PodInterval, pooled

SCRAPE = 15.0
POD = ("llm", "chat-0")
OTHER = ("llm", "chat-1")
TOKENS = "vllm:generation_tokens_total"
STEPS = "specfleet_steps_total"


def a_series(name: str, *samples: tuple[float, float], pod: tuple[str, str] = POD, **labels: str) -> Series:
    return Series({"__name__": name, "namespace": pod[0], "pod": pod[1], **labels}, samples)


def passes(
    *answers: Sequence[Series], owned: Sequence[tuple[str, str]] = (POD,), samples: FleetSamples | None = None
) -> list[Readings]:
    """Read each answer right after its newest sample."""
    samples = samples or FleetSamples(SCRAPE)
    given = []
    for answer in answers:
        now = max((at for series in answer for at, _ in series.samples), default=0.0) + 1.0
        given.append(samples.advance(answer, dict.fromkeys(owned, BUILTIN), now))
    return given


def the_interval(*answers: Sequence[Series]) -> PodInterval:
    (interval,) = passes(*answers)[-1].intervals
    return interval


def test_p1_one_sample_is_no_data_and_not_zero() -> None:
    (only,) = passes([a_series(TOKENS, (0, 500))])

    assert only.intervals == ()
    assert only.reporting == {POD}


def test_p2_differences_are_exact_counts() -> None:
    interval = the_interval([a_series(TOKENS, (0.2, 1000))], [a_series(TOKENS, (15.1, 1500))])

    assert interval.counts.generation_tokens == 500
    assert interval.seconds == pytest.approx(14.9)


def test_p3_ages_differ_from_pod_to_pod() -> None:
    first = [a_series(TOKENS, (0, 1)), a_series(TOKENS, (7, 1), pod=OTHER)]
    second = [a_series(TOKENS, (15, 2)), a_series(TOKENS, (22, 2), pod=OTHER)]

    readings = passes(first, second, owned=[POD, OTHER])[-1]

    assert {interval.pod: interval.end for interval in readings.intervals} == {POD: 15, OTHER: 22}
    assert fleet_query([BUILTIN], "", SCRAPE).endswith("[45s]")


def test_p4_a_new_pod_only_sets_its_baseline() -> None:
    first = [a_series(TOKENS, (0, 100))]
    second = [a_series(TOKENS, (15, 150)), a_series(TOKENS, (15, 9000), pod=OTHER)]

    readings = passes(first, second, owned=[POD, OTHER])[-1]

    assert [interval.pod for interval in readings.intervals] == [POD]


def test_p4_a_label_value_that_appears_in_a_known_pod_starts_from_zero() -> None:
    first = [a_series(TOKENS, (0, 1)), a_series(STEPS, (0, 10), depth="2")]
    second = [
        a_series(TOKENS, (0, 1), (15, 2)),
        a_series(STEPS, (0, 10), (15, 10), depth="2"),
        a_series(STEPS, (15, 40), depth="3"),
    ]

    assert the_interval(first, second).counts.steps == {2: 0, 3: 40}


def test_p4_a_pod_that_two_monitors_scrape_is_counted_once() -> None:
    first = [a_series(TOKENS, (0, 10), job="a"), a_series(TOKENS, (-5, 10), job="b")]
    second = [a_series(TOKENS, (0, 10), (15, 40), job="a"), a_series(TOKENS, (-5, 10), (10, 30), job="b")]

    assert the_interval(first, second).counts.generation_tokens == 30


def test_p4_a_monitor_that_comes_second_is_not_taken_for_new_counters() -> None:
    first = [a_series(TOKENS, (0, 10), job="b")]
    second = [a_series(TOKENS, (0, 10), job="b"), a_series(TOKENS, (-5, 10), (10, 900), job="a")]

    assert the_interval(first, second).counts.generation_tokens is None


def test_p5_one_pod_of_three_restarts_and_only_its_own_count_starts_over() -> None:
    pods = [POD, OTHER, ("llm", "chat-2")]
    first = [a_series(TOKENS, (0, 1000), pod=pod) for pod in pods]
    second = [
        a_series(TOKENS, (15, value), pod=pod) for pod, value in zip(pods, (1100, 40, 1100), strict=True)
    ]

    intervals = passes(first, second, owned=pods)[-1].intervals

    assert pooled(interval.counts for interval in intervals).generation_tokens == 240
    assert [interval.pod for interval in intervals if interval.restarted] == [OTHER]


def test_p9_a_sample_older_than_three_scrapes_by_its_own_stamp_is_dropped() -> None:
    samples = FleetSamples(SCRAPE)
    answer = [a_series(TOKENS, (100, 5))]

    assert samples.advance(answer, {POD: BUILTIN}, now=144).reporting == {POD}
    assert samples.advance(answer, {POD: BUILTIN}, now=146).reporting == frozenset()


def test_an_answer_in_parts_reads_as_the_whole_one() -> None:
    pods = dict.fromkeys((POD, OTHER), BUILTIN)
    whole, parted = FleetSamples(SCRAPE), FleetSamples(SCRAPE)
    for at in (0, 15):
        answer = [a_series(TOKENS, (at, 5 + at), pod=pod) for pod in (OTHER, POD)]
        expected = whole.advance(answer, pods, at + 1.0)

        begun = parted.begin(pods, at + 1.0)
        for series in answer:
            begun.take([series])

        assert parted.finish(begun) == expected
    assert [interval.pod for interval in expected.intervals] == [POD, OTHER]


def test_a_pod_that_comes_again_in_one_pass_counts_once() -> None:
    samples = FleetSamples(SCRAPE)
    samples.advance([a_series(TOKENS, (0, 1000))], {POD: BUILTIN}, 1.0)

    begun = samples.begin({POD: BUILTIN}, 16.0)
    begun.take([a_series(TOKENS, (15, 1400))])
    begun.take([a_series(TOKENS, (15, 1400))])
    (interval,) = samples.finish(begun).intervals

    assert interval.counts.generation_tokens == 400


def test_a_pass_without_its_last_part_leaves_its_counts_to_the_next() -> None:
    samples = FleetSamples(SCRAPE)
    samples.advance([a_series(TOKENS, (0, 1000))], {POD: BUILTIN}, 1.0)

    samples.begin({POD: BUILTIN}, 16.0).take([a_series(TOKENS, (15, 1400))])
    (interval,) = samples.advance([a_series(TOKENS, (30, 1900))], {POD: BUILTIN}, 31.0).intervals

    assert interval.counts.generation_tokens == 900
    assert interval.seconds == 30.0


def test_p9_an_old_scrape_seen_again_makes_no_interval() -> None:
    assert passes([a_series(TOKENS, (0, 5))], [a_series(TOKENS, (0, 5))])[-1].intervals == ()


def test_p10_running_requests_without_progress_for_three_intervals_mean_stuck() -> None:
    answers = [
        [a_series(TOKENS, (15 * i, 7)), a_series("vllm:num_requests_running", (15 * i, 2))] for i in range(4)
    ]

    readings = passes(*answers)

    assert [interval.stuck for reading in readings for interval in reading.intervals] == [False, False, True]


def test_p10_a_pod_without_requests_is_idle_and_not_stuck() -> None:
    answers = [
        [a_series(TOKENS, (15 * i, 7)), a_series("vllm:num_requests_running", (15 * i, 0))] for i in range(6)
    ]

    assert not any(interval.stuck for reading in passes(*answers) for interval in reading.intervals)


@pytest.mark.fault("llm-d/llm-d#2492", "kedacore/keda#3065")
@pytest.mark.fault("verl-project/verl#7543")
def test_p11_absent_is_not_zero() -> None:
    counts = the_interval([a_series(TOKENS, (0, 1))], [a_series(TOKENS, (15, 9))]).counts

    assert counts.drafts is None
    assert counts.preemptions is None
    assert counts.decode_tokens is None
    assert pooled([counts, counts]).drafts is None


def test_p11_a_missing_pool_reports_nothing() -> None:
    readings = FleetSamples(SCRAPE).advance([], {POD: BUILTIN}, now=10)

    assert readings == Readings()


def test_p12_no_ratio_gauge_is_read() -> None:
    text = fleet_query([BUILTIN], 'specfleet_dev_pool!=""', SCRAPE)

    assert not any(word in text for word in ("accept_length", "hit_rate", "throughput", "acceptance_rate"))


def test_p13_a_busy_and_an_idle_pod_are_summed_before_any_ratio() -> None:
    drafts, accepted = "vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_total"
    pods = [POD, OTHER]
    first = [a_series(name, (0, 0), pod=pod) for name in (drafts, accepted) for pod in pods]
    second = [
        a_series(drafts, (15, 1000)),
        a_series(accepted, (15, 500)),
        a_series(drafts, (15, 10), pod=OTHER),
        a_series(accepted, (15, 10), pod=OTHER),
    ]

    total = pooled(i.counts for i in passes(first, second, owned=pods)[-1].intervals)

    assert (total.accepted_tokens, total.drafts) == (510, 1010)


def test_p14_two_ranks_add_their_counters_and_average_their_kv_use() -> None:
    def answer(at: float, tokens: float) -> list[Series]:
        return [
            series
            for rank, usage in (("0", 0.2), ("1", 0.6))
            for series in (
                a_series(TOKENS, (at, tokens), engine=rank),
                a_series("vllm:kv_cache_usage_perc", (at, usage), engine=rank),
                a_series("vllm:num_requests_running", (at, 3), engine=rank),
            )
        ]

    interval = the_interval(answer(0, 100), answer(15, 150))

    assert interval.counts.generation_tokens == 100
    assert interval.kv_usage == pytest.approx(0.4)
    assert interval.running == 6


def test_p15_a_reset_is_found_without_a_process_start_time() -> None:
    interval = the_interval([a_series(TOKENS, (0, 1000))], [a_series(TOKENS, (15, 30))])

    assert (interval.counts.generation_tokens, interval.restarted) == (30, True)


def test_p16_only_finished_requests_count_as_completions() -> None:
    def answer(at: float, count: float) -> list[Series]:
        reasons = ("stop", "length", "abort", "error")
        return [a_series("vllm:request_success_total", (at, count), finished_reason=r) for r in reasons]

    assert the_interval(answer(0, 0), answer(15, 3)).counts.completions == 6


def test_p17_pods_are_keyed_by_target_labels_and_foreign_ones_refused() -> None:
    def answer(at: float, value: float) -> list[Series]:
        return [
            a_series(TOKENS, (at, value), exported_pod="somebody-else"),
            a_series(TOKENS, (at, value), pod=("other", "chat-0")),
        ]

    (interval,) = passes(answer(0, 0), answer(15, 8))[-1].intervals

    assert (interval.pod, interval.counts.generation_tokens) == (POD, 8)


@pytest.mark.fault("kedacore/keda#7475")
@pytest.mark.fault("fluxcd/flagger#1689")
def test_p18_a_value_that_is_no_number_is_dropped_and_has_no_successor() -> None:
    nan = float("nan")

    readings = passes(
        [a_series(TOKENS, (0, 100)), a_series(STEPS, (0, 1), depth="1")],
        [a_series(TOKENS, (0, 100), (15, nan)), a_series(STEPS, (15, 2), depth="1")],
        [a_series(TOKENS, (15, nan), (30, 5000)), a_series(STEPS, (30, 3), depth="1")],
    )

    assert [i.counts.generation_tokens for reading in readings for i in reading.intervals] == [None, None]


def test_p18_what_reads_nan_at_the_end_of_an_interval_is_named() -> None:
    def answer(at: float, usage: float) -> list[Series]:
        return [
            a_series(TOKENS, (at, at)),
            a_series("vllm:kv_cache_usage_perc", (at, usage)),
            a_series("vllm:of_no_interest", (at, float("nan"))),
        ]

    interval = the_interval(answer(0, 0.2), answer(15, float("inf")))

    assert (interval.not_numbers, interval.kv_usage) == (("vllm:kv_cache_usage_perc",), None)
    assert the_interval(answer(0, float("nan")), answer(15, 0.2)).not_numbers == ()


@pytest.mark.fault("grafana/mimir#7691")
def test_p19_a_gap_over_four_intervals_starts_a_new_baseline() -> None:
    assert passes([a_series(TOKENS, (0, 1))], [a_series(TOKENS, (61, 9000))])[-1].intervals == ()


def test_e3_position_zero_is_the_first_drafted_token() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"

    counts = the_interval(
        [a_series(name, (0, 0), position="0")], [a_series(name, (15, 80), position="0")]
    ).counts

    assert counts.accepted_positions == {1: 80}


def test_the_version_of_the_highest_fence_and_the_slowest_rank_is_in_force() -> None:
    def answer(at: float) -> list[Series]:
        name = "specfleet_schedule_version"
        return [
            a_series(TOKENS, (at, 1)),
            a_series(name, (at, 40), fence="6"),
            a_series(name, (at, 2), fence="7", engine="0"),
            a_series(name, (at, 1), fence="7", engine="1"),
        ]

    assert the_interval(answer(0), answer(15)).version == (7, 1)


def test_p7_a_bucket_bound_is_a_number_however_it_is_written() -> None:
    name = "vllm:time_to_first_token_seconds_bucket"

    def answer(at: float, count: float) -> list[Series]:
        return [
            a_series(name, (at, count), le="1", engine="0"),
            a_series(name, (at, count), le="1.0", engine="1"),
            a_series(name, (at, 2 * count), le="+Inf", engine="0"),
        ]

    buckets = the_interval(answer(0, 0), answer(15, 3)).counts.first_token_buckets

    assert buckets == {1.0: 6, float("inf"): 6}
