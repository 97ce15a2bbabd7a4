"""The page of the plug-in: specfleet's series, on a port of the engine-core process."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from specfleet_serving.schedule_metrics import ScheduleMetrics, numbered
from specfleet_vllm.compatibility import NotLive


class PluginMetrics:
    """The registry of one engine core, which can draft up to ``max_depth`` tokens."""

    def __init__(self, max_depth: int) -> None:
        self.registry = CollectorRegistry()
        self.schedule = ScheduleMetrics(self.registry, max_depth)
        self._drafted_at = numbered(
            self.registry,
            "position",
            max_depth,
            "specfleet_draft_positions",
            "Drafts that proposed a token at the position.",
        )
        self._accepted_at = numbered(
            self.registry,
            "position",
            max_depth,
            "specfleet_accepted_positions",
            "Drafts of which the request got the token at the position.",
        )
        self._live = Gauge(
            "specfleet_schedule_live",
            "1: the schedule file is followed. 0: it is not, for the reason in the label.",
            ["reason"],
            registry=self.registry,
        )
        self._reported: str | None = None

    def report_live(self, unfit: NotLive | None) -> None:
        """Say that the file is followed, or why not; what was said before goes away."""
        reason = unfit or ""
        self._live.labels(reason).set(unfit is None)
        if self._reported not in (None, reason):
            self._live.remove(self._reported)
        self._reported = reason

    def count_drafts(self, drafts: Sequence[tuple[int, int]]) -> None:
        """Count drafts, each a pair of tokens proposed and tokens accepted."""
        for drafted, accepted in drafts:
            for position in range(drafted):
                self._drafted_at[position].inc()
            for position in range(accepted):
                self._accepted_at[position].inc()
