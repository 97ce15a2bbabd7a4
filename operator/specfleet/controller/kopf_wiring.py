"""kopf as informer: events of resources and of their children become keys in the work queue, nothing else.

Handlers never patch, never return a value and never add a finalizer. Settings: reference guide, section 2.5.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import kopf

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import SPECULATIVE_DEPLOYMENT, Kind
from specfleet.cluster.work_queue import WorkQueue
from specfleet.controller.key import Key
from specfleet.controller.observe import OWNED_KINDS
from specfleet.controller.watch_monitor import WatchMonitor
from specfleet.planning.names import DEPLOYMENT_LABEL

MANAGED_SELECTOR = "app.kubernetes.io/managed-by=specfleet"
# The status of a Deployment moves several times within a second while it rolls.
OWNED_DELAY_SECONDS = 0.5


KOPF = str(Path(kopf.__file__).parent)


class TasksOfOthers(Collection[asyncio.Task[Any]]):
    """Every task that does not run kopf's code, for ``ignored`` of `kopf.run_tasks`.

    kopf takes all tasks that were created after its start for its own and cancels them at its end:
    connections of the health server and of our client, and parts of reconciles that still run.
    """

    def __contains__(self, task: object) -> bool:
        assert isinstance(task, asyncio.Task)
        code = getattr(task.get_coro(), "cr_code", None)
        return code is None or not code.co_filename.startswith(KOPF)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return (task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def registry(
    queue: WorkQueue[Key], monitor: WatchMonitor, login: Callable[[], Awaitable[kopf.ConnectionInfo]]
) -> kopf.OperatorRegistry:
    """Build a registry of our own: the module-global one would be shared between tests."""
    handlers = kopf.OperatorRegistry()
    resource = SPECULATIVE_DEPLOYMENT

    @kopf.on.login(registry=handlers, id="login")
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await login()

    # Groups are named in every decorator: without one, kopf scans all of them, broken ones too (kopf#1113).
    @kopf.on.event(resource.group, resource.version, resource.plural, registry=handlers, id="resource")
    async def resource_event(event: Any, **_: Any) -> None:
        if monitor.delivered(event["type"], event["object"]):
            metadata = event["object"]["metadata"]
            # Generations begin anew with each object: a resource that is made again has another uid.
            revision = metadata["uid"], metadata.get("generation")
            queue.add(Key(metadata["namespace"], metadata["name"]), revision=revision)

    async def owned_event(namespace: str | None, labels: Any, **_: Any) -> None:
        # An empty value names no resource: a key of it would ask for the list of all, and fail for ever.
        if name := labels[DEPLOYMENT_LABEL]:
            queue.add(Key(namespace or "", name), delay_seconds=OWNED_DELAY_SECONDS)

    for kind in OWNED_KINDS:
        kopf.on.event(*_place(kind), labels={DEPLOYMENT_LABEL: kopf.PRESENT}, registry=handlers, id="owned")(
            owned_event
        )
    return handlers


def _place(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural


def settings() -> kopf.OperatorSettings:
    """Give kopf's settings where its defaults do not suit a watcher that must never write."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.peering.standalone = True
    chosen.scanning.disabled = True
    chosen.watching.server_timeout = 300
    chosen.watching.client_timeout = 310
    chosen.watching.connect_timeout = 30
    chosen.watching.reconnect_backoff = 1
    chosen.watching.chunk_size = 500
    # A tuple: a string with slashes would be accepted and match nothing.
    for kind in OWNED_KINDS:
        chosen.watching.label_selectors[_place(kind)] = MANAGED_SELECTOR
    chosen.networking.request_timeout = 30
    chosen.networking.connect_timeout = 5
    chosen.execution.max_workers = 4
    # kopf would kill the process ten minutes after a failure, whatever runs in it by then; kubelet's grace
    # period is the limit.
    chosen.process.ultimate_exiting_timeout = None
    # Unused, but the defaults collide between operators.
    chosen.persistence.finalizer = "specfleet.dev/finalizer"
    chosen.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="specfleet.dev", v1=False)
    chosen.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix="specfleet.dev", v1=False)
    return chosen


def scope(configuration: Configuration) -> dict[str, Any]:
    """Say where kopf watches: the whole cluster, or the given namespaces."""
    if configuration.watch_namespaces:
        return {"namespaces": list(configuration.watch_namespaces)}
    return {"clusterwide": True}
