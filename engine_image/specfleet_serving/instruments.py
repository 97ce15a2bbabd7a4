"""How vLLM shapes its metrics: prefix, labels, bounds of histograms. Taken from a page of vLLM 0.32."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

ENGINE = "0"
FIRST_TOKEN_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_BOUNDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
PER_OUTPUT_TOKEN_BOUNDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, *TOKEN_BOUNDS)
REQUEST_BOUNDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0),
    *(480.0, 960.0, 1920.0, 7680.0),
)
ITERATION_BOUNDS = tuple(float(2**power) for power in (0, *range(3, 15)))


class Instruments:
    """Makes metrics of one engine in one registry, each with its series there at 0."""

    def __init__(self, registry: CollectorRegistry, model_name: str) -> None:
        self.registry = registry
        self.labels = {"model_name": model_name, "engine": ENGINE}

    def counter(self, name: str, text: str) -> Counter:
        """Make a counter under vLLM's prefix and labels; ``_total`` is added to its name."""
        return Counter(f"vllm:{name}", text, list(self.labels), registry=self.registry).labels(**self.labels)

    def gauge(self, name: str, text: str) -> Gauge:
        """Make a gauge under vLLM's prefix and labels."""
        return Gauge(f"vllm:{name}", text, list(self.labels), registry=self.registry).labels(**self.labels)

    def histogram(self, name: str, text: str, buckets: Sequence[float] = REQUEST_BOUNDS) -> Histogram:
        """Make a histogram under vLLM's prefix and labels."""
        histogram = Histogram(
            f"vllm:{name}", text, list(self.labels), buckets=buckets, registry=self.registry
        )
        return histogram.labels(**self.labels)


def total(counter: Counter) -> int:
    """Read a counter of whole numbers."""
    samples = next(iter(counter.collect())).samples
    return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))
