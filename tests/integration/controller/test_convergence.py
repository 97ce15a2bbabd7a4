"""Whatever happens, and whatever goes wrong meanwhile, the same spec ends in the same objects.

Queue and reconcile run in fake time on the store. Events reach the queue as a watch would bring them, or are
lost, doubled or late; the operator may die between any two steps.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fake_time import in_fake_time
from tests.integration.controller.builders import a_configuration, a_resource
from tests.integration.fake_api import DirectClient, Refused, Store

from specfleet.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD_MONITOR,
    SERVICE,
    SPECULATIVE_DEPLOYMENT,
    Kind,
    Object,
)
from specfleet.cluster.events import EventRecorder
from specfleet.cluster.work_queue import WorkQueue
from specfleet.controller.figures import Figures
from specfleet.controller.key import Key
from specfleet.controller.reconcile import Reconciler
from specfleet.controller.resync import Resync
from specfleet.controller.watch_monitor import WatchMonitor
from specfleet.planning.names import DEPLOYMENT_LABEL

NAMESPACE = "llm"
OWNED = (DEPLOYMENT, SERVICE, CONFIG_MAP, DISRUPTION_BUDGET)
# More than the longest back-off and the longest resync, so that everything that will happen has happened.
SETTLED_SECONDS = 1500.0


class World:
    """A cluster, an operator in it, and a watch between them that may fail."""

    def __init__(self) -> None:
        self.store = Store()
        self.client = DirectClient(self.store, unserved=frozenset({POD_MONITOR}))
        self.lost = self.doubled = 0
        self._seen = 0
        self.store.listeners.add(self._deliver)
        self._start()

    def _start(self) -> None:
        reconciler = Reconciler(
            self.client,
            a_configuration(),
            EventRecorder(self.client, instance="test"),
            Figures(),
            fence=1,
            generator=random.Random(1),
        )
        self.queue: WorkQueue[Key] = WorkQueue(
            reconciler.reconcile, group=lambda key: key.namespace, generator=random.Random(1)
        )
        self.monitor = WatchMonitor()
        resync = Resync(
            self.client, self.queue, self.monitor, namespaces=(), seconds=600, generator=random.Random(1)
        )
        self.tasks = [asyncio.create_task(self.queue.run()), asyncio.create_task(resync.run())]
        for body in self.store.list(SPECULATIVE_DEPLOYMENT, None):
            self._add(body)

    async def stop(self) -> None:
        """Die at whatever await the operator has come to."""
        self.queue.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def restart(self) -> None:
        await self.stop()
        self._start()

    def _deliver(self) -> None:
        for change in self.store.changes[self._seen :]:
            self._seen += 1
            if change.kind not in (SPECULATIVE_DEPLOYMENT, DEPLOYMENT):
                continue
            if self.lost:
                self.lost -= 1
                continue
            times = 2 if self.doubled else 1
            self.doubled -= times - 1
            for _ in range(times):
                if change.kind == DEPLOYMENT:
                    name = change.body["metadata"].get("labels", {}).get(DEPLOYMENT_LABEL)
                    if name:
                        self.queue.add(Key(NAMESPACE, name), delay_seconds=0.5)
                elif self.monitor.delivered(change.type, change.body):
                    self._add(change.body)

    def _add(self, body: Object) -> None:
        metadata = body["metadata"]
        revision = metadata["uid"], metadata["generation"]
        self.queue.add(Key(NAMESPACE, metadata["name"]), revision=revision)


Step = Callable[[World], Awaitable[None] | None]


def _set_spec(change: Callable[[Object], None]) -> Step:
    def step(world: World) -> None:
        try:
            live = world.store.get(SPECULATIVE_DEPLOYMENT, NAMESPACE, "chat")
        except Refused:
            return
        change(live["spec"])
        world.store.replace(SPECULATIVE_DEPLOYMENT, live)

    return step


def _pools(names: tuple[str, ...]) -> Step:
    return _set_spec(lambda spec: spec.update(pools=[{"name": name, "replicas": 2} for name in names]))


def _replicas(count: int) -> Step:
    return _set_spec(lambda spec: spec["pools"][0].update(replicas=count))


def _slots(count: int) -> Step:
    return _set_spec(lambda spec: spec["engine"].update(maxNumSeqs=count))


def _remove(world: World) -> None:
    try:
        world.store.delete(SPECULATIVE_DEPLOYMENT, NAMESPACE, "chat")
    except Refused:
        return


def _create(world: World) -> None:
    try:
        world.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    except Refused:
        return


def _delete_child(choice: int) -> Step:
    def step(world: World) -> None:
        children = [(kind, item) for kind in OWNED for item in world.store.list(kind, NAMESPACE)]
        if children:
            kind, item = children[choice % len(children)]
            world.store.delete(kind, NAMESPACE, item["metadata"]["name"])

    return step


def _meddle(choice: int, patch: Object) -> Step:
    def step(world: World) -> None:
        children = [item["metadata"]["name"] for item in world.store.list(DEPLOYMENT, NAMESPACE)]
        if children:
            world.store.merge_patch(DEPLOYMENT, NAMESPACE, children[choice % len(children)], patch)

    return step


def _fault(way: Any, verb: str, times: int) -> Step:
    return lambda world: world.client.faults.add(way, verb=verb, times=times)


def _lose(count: int) -> Step:
    return lambda world: setattr(world, "lost", world.lost + count)


def _double(count: int) -> Step:
    return lambda world: setattr(world, "doubled", world.doubled + count)


def _wait(seconds: float) -> Step:
    return lambda world: asyncio.sleep(seconds)


MEDDLING = (
    {"spec": {"replicas": 9}},
    {"spec": {"template": {"spec": {"containers": []}}}},
    {"metadata": {"labels": {"specfleet.dev/pool": "other"}}},
    {"metadata": {"ownerReferences": None}},
)
WAYS: tuple[Any, ...] = (500, 429, 409, 410, 403, "timeout", "lost answer")
VERBS = ("get", "list", "apply", "apply_status", "delete", ".*")

STEPS: st.SearchStrategy[Step] = st.one_of(
    st.sampled_from([("main",), ("main", "batch"), ("batch",)]).map(_pools),
    st.integers(0, 3).map(_replicas),
    st.sampled_from([4, 8, 16]).map(_slots),
    st.sampled_from([_remove, _create, World.restart]),
    st.integers(0, 20).map(_delete_child),
    st.builds(_meddle, st.integers(0, 3), st.sampled_from(MEDDLING)),
    st.builds(_fault, st.sampled_from(WAYS), st.sampled_from(VERBS), st.integers(1, 4)),
    st.integers(1, 5).map(_lose),
    st.integers(1, 5).map(_double),
    st.sampled_from([0.0, 0.001, 0.7, 30.0]).map(_wait),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=25))
def test_any_order_of_events_and_faults_ends_in_the_same_objects(steps: list[Step]) -> None:
    @in_fake_time
    async def check() -> None:
        world = World()
        _create(world)
        for step in steps:
            if (pending := step(world)) is not None:
                await pending
        world.client.faults.waiting.clear()
        world.lost = 0
        await asyncio.sleep(SETTLED_SECONDS)
        await world.stop()

        assert children(world.store) == await straight_from_the_spec(world.store)

    check()


async def straight_from_the_spec(store: Store) -> list[Object]:
    """What the same resources get from an operator to which nothing happens."""
    world = World()
    for live in store.list(SPECULATIVE_DEPLOYMENT, NAMESPACE):
        world.store.create(SPECULATIVE_DEPLOYMENT, {"metadata": live["metadata"], "spec": live["spec"]})
    await asyncio.sleep(SETTLED_SECONDS)
    await world.stop()
    return children(world.store)


def children(store: Store) -> list[Object]:
    return [_comparable(kind, item) for kind in OWNED for item in store.list(kind, NAMESPACE)]


def _comparable(kind: Kind, item: Object) -> Object:
    """Leave out what differs between equal objects: identities, versions, and what was pushed."""
    metadata = item["metadata"]
    return {
        "kind": kind.kind,
        "name": metadata["name"],
        "labels": metadata.get("labels"),
        "annotations": sorted(metadata.get("annotations", {})),  # the hash covers the owner's uid
        "owners": [(owner["kind"], owner["name"]) for owner in metadata.get("ownerReferences", [])],
        "spec": item.get("spec"),
        "data": sorted(item.get("data", {})),
    }
