"""The simulated page has the series of a real engine's page, and tells them in Prometheus' own words."""

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from specfleet.simulator import layout
from specfleet.simulator.exposition import MODEL, Gauges, Page
from specfleet_serving.core import Limits
from specfleet_serving.metrics import Metrics
from specfleet_serving.schedule import flat

# Of the process, and of what no simulated pod does: to refuse a request, or to fail a step.
FOREIGN = ("process_", "python_", "vllm:admission_rejections", "specfleet_failed_steps")


def series(page: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not sample.name.startswith(FOREIGN) and not sample.name.endswith("_created")
    }


def a_page(counters: np.ndarray | None = None) -> str:
    page = Page(max_depth=5, kv_tokens=16_000)
    values = np.zeros(layout.COUNTERS) if counters is None else counters
    return page.render(values, Gauges(1.0, 2.0, 0.5), (0, 0), {})


def test_it_has_exactly_the_series_of_the_built_in_engine() -> None:
    limits = Limits(
        max_model_len=100, max_num_seqs=8, max_depth=5, method="ngram", kv_tokens=16_000, kv_block_size=16
    )
    engine = Metrics(MODEL, limits)
    engine.count_schedule(flat(2, 5))

    assert series(a_page()) == series(engine.render().decode())


def test_buckets_are_cumulative_and_end_in_the_count() -> None:
    counters = np.zeros(layout.COUNTERS)
    counters[layout.FIRST_TOKEN + 9 : layout.FIRST_TOKEN + 12] = (3.0, 2.0, 1.0)

    values = {
        (sample.name, sample.labels.get("le")): sample.value
        for family in text_string_to_metric_families(a_page(counters))
        for sample in family.samples
    }

    name = "vllm:time_to_first_token_seconds"
    assert [values[f"{name}_bucket", le] for le in ("0.25", "0.5", "0.75", "1.0", "+Inf")] == [0, 3, 5, 6, 6]
    assert values[f"{name}_count", None] == 6


def test_times_below_ten_milliseconds_all_fall_in_the_first_bucket_of_inter_token_latency() -> None:
    assert layout.HISTOGRAMS[1].name == "inter_token_latency_seconds"
    assert layout.HISTOGRAMS[1].bounds[0] == pytest.approx(0.010)
