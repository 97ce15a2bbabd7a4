"""The metrics page against a page of a real vLLM 0.32 (taken at rest, n-gram speculation of depth 4)."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from specfleet_serving.core import Limits, Load, Step
from specfleet_serving.events import Delivered, RequestTimes
from specfleet_serving.metrics import Metrics
from specfleet_serving.schedule import Document, Reason, Row

CAPTURE = (Path(__file__).parent / "vllm-0.32-metrics-idle.txt").read_text()
LIMITS = Limits(
    max_model_len=256, max_num_seqs=8, max_depth=4, method="ngram", kv_tokens=1048576, kv_block_size=128
)
# design/contracts.md, "Metrics that an engine must expose".
VLLM_NAMES = (
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:cache_config_info",
    "vllm:prompt_tokens_cached_total",
    "vllm:num_preemptions_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
    "vllm:iteration_tokens_total",
    "vllm:admission_rejections_total",
)


def families(page: str) -> dict[str, Metric]:
    found = {}
    for family in text_string_to_metric_families(page):
        found[f"{family.name}_total" if family.type == "counter" else family.name] = family
    return found


def page_of(metrics: Metrics) -> str:
    return metrics.render().decode()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Read one series of an engine that serves "tiny"."""
    if name.startswith("vllm:") and name != "vllm:cache_config_info":
        labels |= {"model_name": "tiny", "engine": "0"}
    return metrics.registry.get_sample_value(name, labels)


def series(family: Metric, without: Iterable[str] = ()) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {
        (sample.name, frozenset(item for item in sample.labels.items() if item[0] not in without))
        for sample in family.samples
    }


@pytest.mark.parametrize("name", VLLM_NAMES)
def test_each_metric_of_the_contract_has_vllms_type_and_series(name: str) -> None:
    ours = families(page_of(Metrics("tiny", LIMITS)))[name]
    theirs = families(CAPTURE)[name]

    assert ours.type == theirs.type
    if name == "vllm:cache_config_info":
        assert ours.samples[0].labels.items() <= theirs.samples[0].labels.items()
    elif name == "vllm:request_time_per_output_token_seconds":
        # Finer at the low end by design: every bound of vLLM's is there, and some below.
        assert series(ours) > series(theirs)
        assert min(float(sample.labels.get("le", "inf")) for sample in ours.samples) == 0.0005
    elif name == "vllm:admission_rejections_total":
        # The second reason of vLLM's is a limit that specfleet's engines do not have.
        assert series(ours) < series(theirs)
    else:
        assert series(ours) == series(theirs)


def test_every_series_that_can_be_known_is_there_at_zero() -> None:
    page = families(page_of(Metrics("tiny", LIMITS)))

    depths = [{"depth": str(depth)} for depth in range(5)]
    for name in ("specfleet_steps", "specfleet_step_seconds", "specfleet_sequence_steps"):
        found = [sample for sample in page[f"{name}_total"].samples if sample.name == f"{name}_total"]
        assert [sample.labels for sample in found] == depths
        assert {sample.value for sample in found} == {0}
    positions = [
        s.labels for s in page["specfleet_draft_positions_total"].samples if s.name.endswith("_total")
    ]
    assert positions == [{"position": str(position)} for position in range(4)]
    reasons = {s.labels["reason"] for s in page["specfleet_schedule_rejected_total"].samples}
    assert reasons == set(Reason)


@pytest.mark.fault("sglang#10672")
def test_a_decode_step_is_counted_at_its_depth_with_what_users_got() -> None:
    metrics = Metrics("tiny", LIMITS)
    step = Step(depth=3, decoding=2, seconds=0.25, sequences=(), proposer_seconds=0.05, verify_seconds=0.2)

    metrics.count_step(
        step, [Delivered(tokens=3, drafted=3, accepted=2, gap_seconds=0.3), Delivered(1, 1, 0, 0.3)]
    )

    assert value(metrics, "specfleet_steps_total", depth="3") == 1
    assert value(metrics, "specfleet_step_seconds_total", depth="3") == 0.25
    assert value(metrics, "specfleet_sequence_steps_total", depth="3") == 2
    assert value(metrics, "specfleet_proposer_seconds_total") == 0.05
    assert value(metrics, "specfleet_verify_seconds_total") == 0.2
    assert value(metrics, "vllm:generation_tokens_total") == 4
    assert value(metrics, "vllm:inter_token_latency_seconds_count") == 2
    assert value(metrics, "vllm:spec_decode_num_drafts_total") == 2
    assert value(metrics, "vllm:spec_decode_num_draft_tokens_total") == 4
    assert value(metrics, "vllm:spec_decode_num_accepted_tokens_total") == 2
    per_position = [
        value(metrics, "vllm:spec_decode_num_accepted_tokens_per_pos_total", position=str(p))
        for p in range(4)
    ]
    assert per_position == [1, 1, 0, 0]
    proposed = [value(metrics, "specfleet_draft_positions_total", position=str(p)) for p in range(4)]
    assert proposed == [2, 1, 1, 0]


def test_a_step_that_only_reads_prompts_is_no_decode_step() -> None:
    metrics = Metrics("tiny", LIMITS)

    metrics.count_step(
        Step(depth=3, decoding=0, seconds=9.0, sequences=(), prompt_tokens=40, cached_prompt_tokens=16),
        [Delivered(tokens=1, drafted=0, accepted=0, gap_seconds=None)],
    )

    assert value(metrics, "specfleet_steps_total", depth="3") == 0
    assert value(metrics, "specfleet_step_seconds_total", depth="3") == 0
    assert value(metrics, "vllm:inter_token_latency_seconds_count") == 0
    assert value(metrics, "vllm:prompt_tokens_total") == 40
    assert value(metrics, "vllm:prompt_tokens_cached_total") == 16
    assert value(metrics, "vllm:iteration_tokens_total_sum") == 41


@pytest.mark.fault("sglang#12064")
def test_a_finished_request_leaves_the_times_of_its_stages() -> None:
    metrics = Metrics("tiny", LIMITS)

    metrics.requests.count_finished("length", RequestTimes(10.0, 11.0, 13.0, 15.0, tokens=5), now=15.5)

    assert value(metrics, "vllm:request_success_total", finished_reason="length") == 1
    assert value(metrics, "vllm:e2e_request_latency_seconds_sum") == 5.5
    assert value(metrics, "vllm:request_queue_time_seconds_sum") == 1.0
    assert value(metrics, "vllm:request_prefill_time_seconds_sum") == 2.0
    assert value(metrics, "vllm:request_decode_time_seconds_sum") == 2.0
    # Decode time over the tokens after the first.
    assert value(metrics, "vllm:request_time_per_output_token_seconds_sum") == 0.5


def test_a_request_that_left_the_queue_by_abort_has_no_later_stages() -> None:
    metrics = Metrics("tiny", LIMITS)

    metrics.requests.count_finished("abort", RequestTimes(10.0, None, None, None, tokens=0), now=12.0)

    assert value(metrics, "vllm:request_success_total", finished_reason="abort") == 1
    assert value(metrics, "vllm:request_queue_time_seconds_count") == 0
    assert value(metrics, "vllm:request_time_per_output_token_seconds_count") == 0


def test_the_schedule_in_force_is_one_series_that_moves_with_the_fence() -> None:
    metrics = Metrics("tiny", LIMITS)
    for fence, version in ((7, 12), (8, 1)):
        metrics.count_schedule(Document(version, fence, 4, (Row(None, 1),)))

    samples = families(page_of(metrics))["specfleet_schedule_version"].samples

    assert [(sample.labels, sample.value) for sample in samples] == [({"fence": "8"}, 1.0)]


def test_the_gauges_of_load_are_what_the_core_says() -> None:
    metrics = Metrics("tiny", LIMITS)

    metrics.count_load(Load(running=3, decoding=2, waiting=5, kv_usage=0.25))

    assert value(metrics, "vllm:num_requests_running") == 3
    assert value(metrics, "vllm:num_requests_waiting") == 5
    assert value(metrics, "vllm:kv_cache_usage_perc") == 0.25


def test_an_engine_without_a_proposer_has_depth_0_only() -> None:
    metrics = Metrics("tiny", Limits(256, 8, 0, "none", 1024, 16))

    assert value(metrics, "specfleet_steps_total", depth="0") == 0
    assert value(metrics, "specfleet_steps_total", depth="1") is None
    assert metrics.speculation()["acceptedTokensPerPosition"] == []
