"""What everything that follows a schedule file counts about it: specfleet's own series, without vLLM's.

Shared by the engines of this package and by the plug-in for a stock vLLM, which has `vllm:` series of its
own. All series are there at 0 from the start. Source: design/contracts.md, "Metrics that an engine must
expose".
"""

from prometheus_client import CollectorRegistry, Counter, Gauge

from specfleet_serving.schedule import Document, Reason


class ScheduleMetrics:
    """The schedule in force, the refused ones, and the decode steps run at each depth of 0..``max_depth``."""

    def __init__(self, registry: CollectorRegistry, max_depth: int) -> None:
        depths = max_depth + 1
        self._version = Gauge(
            "specfleet_schedule_version", "Version of the schedule in force.", ["fence"], registry=registry
        )
        self._fence: str | None = None
        rejected = Counter(
            "specfleet_schedule_rejected", "Schedule files refused.", ["reason"], registry=registry
        )
        self._rejected = {reason: rejected.labels(reason=reason) for reason in Reason}
        self.steps = numbered(
            registry, "depth", depths, "specfleet_steps", "Decode steps run at the scheduled depth."
        )
        self._step_seconds = numbered(
            registry, "depth", depths, "specfleet_step_seconds", "Time of those decode steps."
        )
        self._sequence_steps = numbered(
            registry,
            "depth",
            depths,
            "specfleet_sequence_steps",
            "Decoding requests, summed over those decode steps.",
        )

    def count_schedule(self, document: Document) -> None:
        """Report the schedule in force; an older fence's series goes away."""
        fence = str(document.fence)
        self._version.labels(fence=fence).set(document.version)
        # After the new one is there: a scrape in between must not find no version at all.
        if self._fence not in (None, fence):
            self._version.remove(self._fence)
        self._fence = fence

    def forget_schedule(self) -> None:
        """Report no schedule: none is followed any more."""
        if self._fence is not None:
            self._version.remove(self._fence)
            self._fence = None

    def count_refused(self, reason: Reason) -> None:
        """Count a schedule file that was not followed."""
        self._rejected[reason].inc()

    def count_step(self, depth: int, decoding: int, seconds: float) -> None:
        """Count a decode step at a scheduled depth, in which that many requests decoded."""
        self.steps[depth].inc()
        self._step_seconds[depth].inc(seconds)
        self._sequence_steps[depth].inc(decoding)


def numbered(registry: CollectorRegistry, label: str, count: int, name: str, text: str) -> list[Counter]:
    """Make a counter with one series for each of 0..count-1."""
    counter = Counter(name, text, [label], registry=registry)
    return [counter.labels(str(index)) for index in range(count)]
