"""Reconcile: read one resource and everything around it, plan, apply, report.

Level-triggered and idempotent: it trusts neither events nor memory, may be cancelled at any await and run
twice. What it remembers between two runs only saves work; after a restart it is empty.
"""

import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import SPECULATIVE_DEPLOYMENT, Object
from specfleet.api.resource import SpeculativeDeployment
from specfleet.api.validation import InvalidResource, validate
from specfleet.cluster.client import RECONCILE_MANAGER, ClusterClient
from specfleet.cluster.errors import ClusterError, Forbidden, Invalid, NotFound
from specfleet.cluster.events import EventRecorder
from specfleet.controller import conditions
from specfleet.controller.drift import digests
from specfleet.controller.figures import Figures
from specfleet.controller.key import Key
from specfleet.controller.observe import Observer
from specfleet.engines.engine import Refusal
from specfleet.planning.observed import ObjectKey, Observed
from specfleet.planning.plan import Desired, Plan, plan
from specfleet.planning.status import status as planned_status

JITTER = 0.2
# While pods come up nothing announces why they do not: look again, the less often the longer nothing changes.
UNSETTLED_SECONDS = 15.0
LONGEST_UNSETTLED_SECONDS = 120.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Memory:
    """What one key's last run left behind."""

    uid: str
    changed_at: datetime
    digests: dict[ObjectKey, str] = field(default_factory=dict)
    status: Object | None = None


class Reconciler:
    """``reconcile`` is the work of the queue. ``fence`` is the leader's, for a pool's first schedule."""

    def __init__(
        self,
        client: ClusterClient,
        configuration: Configuration,
        events: EventRecorder,
        figures: Figures,
        *,
        fence: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        generator: random.Random | None = None,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._events = events
        self._figures = figures
        self._observer = Observer(client)
        self._fence = fence
        self._now = now
        self._random = generator or random.Random()
        self._memories: dict[Key, _Memory] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Make the cluster fit the resource. Gives the seconds until the next look; None: it is gone.

        Raises ClusterError; the queue then tries again.
        """
        try:
            live = await self._client.get(SPECULATIVE_DEPLOYMENT, key.namespace, key.name)
        except NotFound:
            self._memories.pop(key, None)
            return None
        metadata = live["metadata"]
        if metadata.get("deletionTimestamp"):
            # The garbage collector takes the children by their owner references.
            return None
        memory = self._memories.get(key)
        if memory is None or memory.uid != metadata["uid"]:
            memory = self._memories[key] = _Memory(metadata["uid"], self._now())
        try:
            resource = validate(live)
        except InvalidResource as invalid:
            status = conditions.invalid_status(live, tuple(map(str, invalid.problems)), self._now())
            await self._report(live, status, memory)
            return self._settled()
        return await self._make_so(live, resource, memory)

    async def _make_so(self, live: Object, resource: SpeculativeDeployment, memory: _Memory) -> float:
        observed = await self._observer.observe(resource, fence=self._fence)
        # Also after a restart, since nothing is known of what happened meanwhile.
        drifted = digests(observed.objects) != memory.digests
        observed = replace(observed, full=drifted)
        planned = plan(resource, self._configuration, observed, self._now())
        observed, refused = await self._carry_out(resource, observed, planned)
        planned = planned.refused(
            [Refusal("ApplyRefused", str(error), pool) for pool, error in refused.items()]
        )
        status = planned_status(resource, observed, planned, self._now())
        if refused:
            # Shown to the user, and tried again: the cause (a quota, a policy) may be outside the resource.
            # If the status is forbidden too, the queue's log has at least the first refusal.
            with contextlib.suppress(Forbidden):
                await self._report(live, status, memory)
            raise next(iter(refused.values()))
        memory.digests = digests(observed.objects)
        await self._report(live, status, memory)
        return self._next_look(status, memory)

    async def _carry_out(
        self, resource: SpeculativeDeployment, observed: Observed, planned: Plan
    ) -> tuple[Observed, dict[str | None, ClusterError]]:
        """Apply and delete, in the plan's order. Gives what is now observed, and each pool's first refusal.

        The rest of that pool is left out: its pods need what comes before them. Nor is anything removed then,
        as where the plan holds a pool. None stands for what the pools share, and for removals.
        """
        objects = dict(observed.objects)
        refused: dict[str | None, ClusterError] = {}
        for desired in planned.desired:
            if desired.pool in refused:
                continue
            try:
                objects[desired.key] = await self._apply(resource, desired)
            except (Invalid, Forbidden) as error:
                refused[desired.pool] = error
        try:
            for removal in planned.removals if refused.keys() <= {None} else ():
                await self._client.delete(removal.kind, resource.namespace, removal.name)
                objects.pop((removal.kind, removal.name), None)
                logger.info("deleted %s %s", removal.kind.kind, removal.name, extra=_names(resource))
        except (Invalid, Forbidden) as error:
            refused.setdefault(None, error)
        return replace(observed, objects=objects), refused

    async def _apply(self, resource: SpeculativeDeployment, desired: Desired) -> Object:
        applied = await self._client.apply(desired.kind, desired.body, manager=desired.manager)
        self._figures.applied.labels(kind=desired.kind.kind).inc()
        logger.info("applied %s %s", desired.kind.kind, desired.key[1], extra=_names(resource))
        return applied

    async def _report(self, live: Object, status: Object, memory: _Memory) -> None:
        """Write the status if it says something new, and an Event for each condition that turned."""
        comparable = conditions.without_times(status)
        if memory.status == comparable and conditions.contains(live.get("status") or {}, comparable):
            return
        metadata = live["metadata"]
        body = {
            "apiVersion": SPECULATIVE_DEPLOYMENT.api_version,
            "kind": SPECULATIVE_DEPLOYMENT.kind,
            # With the uid the write cannot land on a new resource of the same name.
            "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
            "status": status,
        }
        await self._client.apply_status(SPECULATIVE_DEPLOYMENT, body, manager=RECONCILE_MANAGER)
        memory.status, memory.changed_at = comparable, self._now()
        for condition in conditions.news(live, status):
            text = condition.get("message") or condition["reason"]
            await self._events.record(
                live,
                "Warning" if conditions.is_fault(condition) else "Normal",
                condition["reason"],
                f"{condition['type']} is {condition['status']}: {text}",
            )

    def _next_look(self, status: Object, memory: _Memory) -> float:
        ready = next((entry for entry in status["conditions"] if entry["type"] == "Ready"), None)
        if ready is not None and ready["status"] == "True":
            return self._settled()
        # By the clock and not by runs: events come by the dozen while pods start, and tell nothing of this.
        unchanged = (self._now() - memory.changed_at).total_seconds()
        return min(max(unchanged, UNSETTLED_SECONDS), LONGEST_UNSETTLED_SECONDS) * self._spread()

    def _settled(self) -> float:
        return self._configuration.resync_seconds * self._spread()

    def _spread(self) -> float:
        return 1 + self._random.uniform(-JITTER, JITTER)


def _names(resource: SpeculativeDeployment) -> dict[str, str]:
    return {"resource": f"{resource.namespace}/{resource.name}"}
