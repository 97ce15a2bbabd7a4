"""Dictionaries of metrics against pages that the engines themselves wrote."""

import re
from dataclasses import fields

import pytest
from prometheus_client import CollectorRegistry
from tests.unit.telemetry.pages import names, page

from specfleet.engines.dictionaries import METRICS
from specfleet.engines.metrics import Metric, MetricDictionary
from specfleet.engines.metrics_vllm import (
    BUILTIN,
    NOT_LIVE,
    NOT_SCRAPED,
    PLUGIN_METRICS,
    SCHEDULE_METRICS,
    VLLM,
    VLLM_METRICS,
)
from specfleet.telemetry.queries import fleet_query
from specfleet.tuning.interval import Counts, PodInterval
from specfleet_serving.core import Limits
from specfleet_serving.metrics import Metrics
from specfleet_vllm.compatibility import NotLive
from specfleet_vllm.metrics import PluginMetrics

SPECULATING = (
    "vllm-0.32-metrics-idle",
    "vllm-0.32-metrics-after",
    "vllm-0.32.0-draft-idle",
    "vllm-0.32.0-draft-1-and-4",
    "vllm-0.32.0-ngram-1-and-4",
    "vllm-0.32.0-ngram-aborted",
)
PLAIN = "vllm-0.32.0-no-speculation"


def selected(dictionary: MetricDictionary, name: str) -> frozenset[str]:
    """Give the names of a page that the fleet's query takes."""
    found = re.search(r'__name__=~"([^"]*)"', fleet_query([dictionary], "", 15.0))
    assert found is not None
    return frozenset(one for one in names(name) if re.fullmatch(found[1], one))


@pytest.mark.parametrize("captured", SPECULATING)
def test_all_that_is_needed_of_a_speculating_vllm_is_on_its_page_before_and_after_load(captured: str) -> None:
    assert VLLM.missing(names(captured), speculating=True) == ()


@pytest.mark.parametrize("captured", [*SPECULATING, PLAIN])
def test_the_query_takes_what_the_dictionary_reads_and_no_created_twin(captured: str) -> None:
    taken = selected(VLLM, captured)

    assert not [name for name in taken if name.endswith("_created")]
    assert taken == names(captured) & set(VLLM.series)
    assert {name for name in VLLM.counts if name.startswith("vllm:")} - taken <= {
        name for name in VLLM.counts if "spec_decode" in name and captured == PLAIN
    }


def test_p11_a_vllm_without_speculation_legitimately_has_no_series_of_it() -> None:
    assert not [name for name in names(PLAIN) if "spec_decode" in name]
    assert VLLM.missing(names(PLAIN), speculating=False) == ()


def test_p11_a_speculating_vllm_without_those_series_misses_each_of_them_by_name() -> None:
    missing = VLLM.missing(names(PLAIN), speculating=True)

    assert missing == tuple(metric.name for metric in VLLM_METRICS if "spec_decode" in metric.name)


def test_labels_and_kinds_are_those_of_the_page() -> None:
    labels = {name: frozenset(own) for name, own, _ in page("vllm-0.32.0-draft-1-and-4")}

    for metric in VLLM_METRICS:
        for name in metric.series:
            assert frozenset(metric.labels) - {"le"} <= labels[name], metric.name
        assert (metric.kind == "histogram") == (f"{metric.name}_count" in labels), metric.name
        assert (metric.kind == "counter") == (metric.name.endswith("_total")), metric.name


@pytest.mark.fault(
    "kubernetes-sigs/gateway-api-inference-extension#1905",
    "llm-d/llm-d#509",
    "kubernetes-sigs/inference-perf#277",
    "sglang#22612",
    "verl-project/verl#7543",
)
@pytest.mark.parametrize("metric", [m for m in VLLM_METRICS if m.need == "always"], ids=lambda m: m.name)
def test_a_metric_that_a_version_has_renamed_is_missed_by_name(metric: Metric) -> None:
    shown = names("vllm-0.32.0-draft-idle") - {metric.series[0]}

    assert VLLM.missing(shown, speculating=True) == (metric.name,)


def test_a_former_name_is_asked_for_and_named_beside_the_one_that_is_missing() -> None:
    shown = names(PLAIN) - {"vllm:kv_cache_usage_perc"} | {"vllm:gpu_cache_usage_perc"}

    (message,) = VLLM.missing(shown, speculating=False)

    assert message == "vllm:kv_cache_usage_perc (it shows vllm:gpu_cache_usage_perc, an older name)"
    assert "vllm:gpu_cache_usage_perc" in fleet_query([VLLM], "", 15.0)


def test_a_follower_of_the_schedule_shows_all_of_its_series_or_is_faulty() -> None:
    stock = names(PLAIN)
    partly = stock | {"specfleet_steps_total"}

    assert VLLM.missing(stock, speculating=False) == ()
    assert "specfleet_step_seconds_total" in VLLM.missing(partly, speculating=False)
    assert "specfleet_step_seconds_total" in BUILTIN.missing(stock, speculating=False)


def test_a_plug_in_that_follows_no_file_has_no_version_and_misses_nothing() -> None:
    not_live = {name for metric in (*SCHEDULE_METRICS, *PLUGIN_METRICS) for name in metric.series}
    not_live -= {"specfleet_schedule_version"}

    assert VLLM.missing(names(PLAIN) | not_live, speculating=False) == ()


def names_of(registry: CollectorRegistry) -> frozenset[str]:
    return frozenset(sample.name for family in registry.collect() for sample in family.samples)


@pytest.mark.parametrize(("method", "depth"), [("ngram", 5), ("none", 0)])
def test_the_engines_of_this_package_show_all_that_is_needed_from_their_start(
    method: str, depth: int
) -> None:
    limits = Limits(
        max_model_len=64, max_num_seqs=4, max_depth=depth, method=method, kv_tokens=256, kv_block_size=16
    )

    shown = names_of(Metrics("tiny", limits).registry)

    assert BUILTIN.missing(shown, speculating=method != "none") == ()


def test_a_stock_vllm_with_the_plug_in_shows_all_that_is_read() -> None:
    plugin = PluginMetrics(max_depth=5)
    plugin.report_live(None)

    shown = names("vllm-0.32.0-draft-idle") | names_of(plugin.registry)

    assert VLLM.missing(shown, speculating=True) == ()
    read = {name for metric in (*SCHEDULE_METRICS, *PLUGIN_METRICS) for name in metric.series}
    assert read - shown == {"specfleet_schedule_version"}  # there as soon as a file was accepted


@pytest.mark.fault("verl-project/verl#7543")
@pytest.mark.parametrize("metric", [m for m in PLUGIN_METRICS if m.counts], ids=lambda m: m.name)
def test_a_count_that_the_plug_in_has_renamed_is_missed_where_drafts_are_made(metric: Metric) -> None:
    plugin = PluginMetrics(max_depth=5)
    shown = names("vllm-0.32.0-draft-idle") | names_of(plugin.registry)

    assert VLLM.missing(shown - set(metric.series), speculating=True) == (metric.name,)


def test_the_words_of_a_plug_in_that_is_not_live_are_all_known() -> None:
    assert {*NotLive, NOT_SCRAPED} == set(NOT_LIVE)


@pytest.mark.parametrize("engine", METRICS)
def test_every_field_that_a_dictionary_feeds_exists(engine: str) -> None:
    counts, intervals = ({field.name for field in fields(one)} for one in (Counts, PodInterval))

    for metric in METRICS[engine].metrics:
        assert {count.field for count in metric.counts} <= counts
        assert metric.level is None or metric.level.field in intervals
