"""The Prometheus in memory answers as the real one: own stamps, windows, labels of targets."""

import pytest
from tests.unit.simulator.scenes import a_scenario, static

from specfleet.simulator.prometheus import SimulatedPrometheus
from specfleet.simulator.run import simulate
from specfleet.simulator.scenario import Limits
from specfleet.telemetry.errors import AnswerPartial, QueryRefused, SourceUnavailable

TARGET = {"namespace": "llm", "pod": "chat-0", "specfleet_dev_pool": "chat"}


def a_prometheus(*values: float) -> SimulatedPrometheus:
    """One scrape every 15 s from second 1000."""
    prometheus = SimulatedPrometheus()
    for number, value in enumerate(values):
        prometheus.store(TARGET, f'# HELP a x\na{{pod="own",le="0.5"}} {value}\nb 1\n', 1000.0 + 15 * number)
    return prometheus


def test_a_range_selector_gives_raw_samples_with_their_stamps() -> None:
    series = a_prometheus(1, 2, 3, 4).answer('{__name__=~"a|c"}[45s]', 1045.0)

    assert [one.samples for one in series] == [((1015.0, 2.0), (1030.0, 3.0), (1045.0, 4.0))]


def test_an_exporters_own_pod_label_is_renamed() -> None:
    (series,) = a_prometheus(1).answer("a{}[45s]", 1000.0)

    assert series.labels["pod"] == "chat-0"
    assert series.labels["exported_pod"] == "own"


@pytest.mark.parametrize(
    ("matcher", "found"),
    [('specfleet_dev_pool!=""', 1), ('specfleet_dev_pool=""', 0), ('le=~"0\\\\.5"', 1), ('le!~"0.*"', 0)],
)
def test_matchers_mean_what_they_mean_in_promql(matcher: str, found: int) -> None:
    assert len(a_prometheus(1).answer(f"a{{{matcher}}}[45s]", 1000.0)) == found


def test_an_absent_series_is_an_empty_answer() -> None:
    assert a_prometheus(1).answer("c{}[45s]", 1000.0) == []


def test_what_is_no_range_selector_is_refused() -> None:
    with pytest.raises(QueryRefused):
        a_prometheus(1).answer("rate(a[1m])", 1000.0)


def test_an_outage_and_a_warning_are_errors_not_empty_answers() -> None:
    prometheus = a_prometheus(1)

    prometheus.unreachable = True
    with pytest.raises(SourceUnavailable):
        prometheus.answer("a{}[45s]", 1000.0)
    prometheus.unreachable, prometheus.warns = False, True
    with pytest.raises(AnswerPartial):
        prometheus.answer("a{}[45s]", 1000.0)


def test_two_ranks_of_a_pod_are_read_as_one_pod() -> None:
    run = simulate(a_scenario(limits=Limits(ranks=2), peak=0.3), static(2), 1)
    generated = sum(i.counts.generation_tokens or 0 for p in run.passes for i in p.readings.intervals)
    seen = sum(i.seconds for p in run.passes for i in p.readings.intervals)

    assert len(run.traces) == 2
    assert generated / seen == pytest.approx(run.requests.output.sum() / 600, rel=0.15)
