"""The operator's own metrics, in a registry of their own. Served by `controller.health` at ``/metrics``."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from specfleet.api.kinds import Object

# A reconcile is a dozen calls of some milliseconds; past a minute the queue cancels it.
RECONCILE_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Figures:
    """One per process. Names are part of the operator's interface: dashboards and alerts use them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.reconcile_seconds = Histogram(
            "specfleet_operator_reconcile_seconds",
            "Duration of one reconcile, failed ones included.",
            buckets=RECONCILE_BUCKETS,
            registry=self.registry,
        )
        self.reconcile_errors = Counter(
            "specfleet_operator_reconcile_errors_total",
            "Failed reconciles by kind of error.",
            ["error"],
            registry=self.registry,
        )
        self.applied = Counter(
            "specfleet_operator_applied_objects_total",
            "Server-side applies of child objects.",
            ["kind"],
            registry=self.registry,
        )
        self.decisions = Counter(
            "specfleet_operator_tuning_decisions_total",
            "Decisions of the tuning pass by action.",
            ["action"],
            registry=self.registry,
        )
        self.pushes = Counter(
            "specfleet_operator_schedule_pushes_total",
            "Schedules written to pools; probe: a short measurement.",
            ["kind"],
            registry=self.registry,
        )
        self._conditions = Gauge(
            "specfleet_operator_condition",
            "1 for each condition of each resource, as of the last tuning pass.",
            ["resource_namespace", "resource", "type", "status", "reason"],
            registry=self.registry,
        )
        self.tuning_seconds = Histogram(
            "specfleet_operator_tuning_pass_seconds",
            "Duration of one tuning pass over the whole fleet.",
            buckets=RECONCILE_BUCKETS,
            registry=self.registry,
        )

    def show_conditions(self, resources: Iterable[Object]) -> None:
        """Export the conditions of these resources, and of no others any more."""
        self._conditions.clear()
        for resource in resources:
            metadata = resource["metadata"]
            for entry in (resource.get("status") or {}).get("conditions") or ():
                values = (entry["type"], entry["status"], entry["reason"])
                self._conditions.labels(metadata["namespace"], metadata["name"], *values).set(1)

    def follow(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Export a figure that is read when it is scraped."""
        Gauge(f"specfleet_operator_{name}", description, registry=self.registry).set_function(value)
