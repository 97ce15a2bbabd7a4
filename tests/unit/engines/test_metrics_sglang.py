"""SGLang's dictionary against pages that the collector of the released package wrote: dev/captures/sglang.py.

SGLang itself was not run.
"""

import re

import pytest
from tests.unit.telemetry.pages import names, page

from specfleet.engines.metrics import Metric
from specfleet.engines.metrics_sglang import SGLANG, SGLANG_METRICS
from specfleet.telemetry.queries import fleet_query

PAGES = [f"sglang-0.5.23-{name}" for name in ("idle", "running", "ended", "no-speculation", "priority")]
ENDED = "sglang-0.5.23-ended"


@pytest.mark.parametrize("captured", PAGES)
def test_all_that_is_needed_is_on_the_page_from_the_warm_up_request_on(captured: str) -> None:
    assert SGLANG.missing(names(captured), speculating=True) == ()


@pytest.mark.fault("sglang#22612", "vllm#42508")
def test_every_metric_that_is_read_is_the_collectors() -> None:
    shown = names(ENDED)
    labels = {name: frozenset(own) for name, own, _ in page(ENDED)}

    for metric in SGLANG_METRICS:
        for name in metric.series:
            assert name in shown
            assert frozenset(metric.labels) - {"le"} <= labels[name], metric.name
        assert (metric.kind == "histogram") == (f"{metric.name}_count" in labels), metric.name
        assert (metric.kind == "counter") == (metric.name.endswith("_total")), metric.name


def test_the_query_takes_exactly_what_is_read() -> None:
    found = re.search(r'__name__=~"([^"]*)"', fleet_query([SGLANG], "", 15.0))
    assert found is not None

    assert {name for name in names(ENDED) if re.fullmatch(found[1], name)} == set(SGLANG.series)


@pytest.mark.parametrize(
    "metric", [m for m in SGLANG_METRICS if m.need in ("always", "finished")], ids=lambda m: m.name
)
def test_a_metric_that_a_version_has_renamed_is_missed_by_name(metric: Metric) -> None:
    assert SGLANG.missing(names(ENDED) - {metric.series[0]}, speculating=True) == (metric.name,)


def test_series_that_begin_with_their_first_use_are_not_missed_before_it() -> None:
    begun_by_use = {name for metric in SGLANG_METRICS if metric.need != "always" for name in metric.series}

    assert SGLANG.missing(names("sglang-0.5.23-idle") - begun_by_use, speculating=True) == ()
