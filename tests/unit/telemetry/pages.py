"""Captured pages of ``/metrics``, and what Prometheus answers after it has scraped them."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from specfleet.engines.metrics import MetricDictionary
from specfleet.telemetry.samples import FleetSamples
from specfleet.telemetry.source import Series
from specfleet.tuning.interval import PodInterval

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "metrics"
POD = ("llm", "chat-0")
SCRAPE = 15.0
Sample = tuple[str, Mapping[str, str], float]  # name, labels, value


@cache
def page(name: str) -> tuple[Sample, ...]:
    """Read a captured page."""
    return tuple(_samples((FIXTURES / f"{name}.txt").read_text(encoding="utf-8")))


def _samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def names(name: str) -> frozenset[str]:
    return frozenset(sample[0] for sample in page(name))


def scraped(name: str, *stamps: float, pod: tuple[str, str] = POD, **target: str) -> list[Series]:
    """Give the series of a page that stayed the same at these times."""
    own = {"namespace": pod[0], "pod": pod[1], **target}
    return [
        Series({**labels, **own, "__name__": name}, tuple((at, value) for at in stamps))
        for name, labels, value in page(name)
    ]


def interval(dictionary: MetricDictionary, before: str, after: str) -> PodInterval:
    """Give the interval from one page to the next, a scrape later."""
    samples = FleetSamples(SCRAPE)
    samples.advance(scraped(before, 0.0), {POD: dictionary}, 1.0)
    (found,) = samples.advance(scraped(after, SCRAPE), {POD: dictionary}, SCRAPE + 1.0).intervals
    return found
