"""Who leads, in fake time, against a store of one object. Times: reference guide, section 2.7."""

import asyncio
from typing import Any

import pytest
from tests.fake_time import in_fake_time

from specfleet.api.configuration import LeaderElection
from specfleet.cluster.client import Kind, Object
from specfleet.cluster.errors import Conflict, NotFound, Unavailable
from specfleet.cluster.lease import Lease, LeaseLost


class OneLease:
    """The API server's part: resource versions and nothing else."""

    def __init__(self) -> None:
        self.body: Object | None = None
        self.version = 0
        self.down = False
        self.hanging = False

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        await self._answer()
        if self.body is None:
            raise NotFound
        return self.body

    async def create(self, kind: Kind, body: Object) -> Object:
        await self._answer()
        if self.body is not None:
            raise Conflict
        return self._store(body)

    async def replace(self, kind: Kind, body: Object) -> Object:
        await self._answer()
        if (
            self.body is None
            or body["metadata"]["resourceVersion"] != self.body["metadata"]["resourceVersion"]
        ):
            raise Conflict
        return self._store(body)

    def edit(self, **spec: Any) -> None:
        assert self.body is not None
        self._store({**self.body, "spec": {**self.body["spec"], **spec}})

    @property
    def holder(self) -> str:
        assert self.body is not None
        return str(self.body["spec"]["holderIdentity"])

    async def _answer(self) -> None:
        if self.hanging:
            await asyncio.sleep(3600)
        if self.down:
            raise Unavailable("down")

    def _store(self, body: Object) -> Object:
        self.version += 1
        self.body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.body


def a_lease(store: OneLease, identity: str = "one") -> Lease:
    return Lease(store, namespace="specfleet", identity=identity, settings=LeaderElection())


def now() -> float:
    return asyncio.get_running_loop().time()


@in_fake_time
async def test_the_first_candidate_leads_at_once() -> None:
    store = OneLease()

    await a_lease(store).acquire()

    assert store.holder == "one"
    assert now() == 0


@in_fake_time
async def test_a_dead_holder_is_followed_after_the_duration_on_our_own_clock() -> None:
    store = OneLease()
    await a_lease(store, "dead").acquire()
    # A wall clock far in the future, or in the past, says nothing.
    store.edit(renewTime="2099-01-01T00:00:00.000000Z")

    await a_lease(store, "next").acquire()

    assert store.holder == "next"
    assert 15 <= now() <= 17


@in_fake_time
async def test_each_new_leader_has_one_transition_more() -> None:
    store = OneLease()
    first = await a_lease(store, "a").acquire()
    second = await a_lease(store, "b").acquire()

    lease = a_lease(store, "c")
    third = await lease.acquire()

    assert (first, second, third) == (0, 1, 2)
    assert lease.transitions == 2


@in_fake_time
async def test_a_holder_that_renews_is_never_followed() -> None:
    store = OneLease()
    holder = a_lease(store, "holder")
    await holder.acquire()
    keeping = asyncio.create_task(holder.keep())
    other = asyncio.create_task(a_lease(store, "other").acquire())

    await asyncio.sleep(3600)

    assert store.holder == "holder"
    assert not other.done()
    assert not keeping.done()
    keeping.cancel()
    other.cancel()
    await asyncio.gather(keeping, other, return_exceptions=True)


@in_fake_time
async def test_a_holder_with_a_longer_duration_is_given_that_long() -> None:
    store = OneLease()
    await a_lease(store, "slow").acquire()
    store.edit(leaseDurationSeconds=60)

    await a_lease(store, "next").acquire()

    assert 60 <= now() <= 62


@in_fake_time
async def test_a_released_lease_is_taken_at_once() -> None:
    store = OneLease()
    leaving = a_lease(store, "leaving")
    await leaving.acquire()
    await leaving.release()

    await a_lease(store, "next").acquire()

    assert store.holder == "next"
    assert now() == 0


@pytest.mark.fault("nolar/kopf#1266", "nolar/kopf#734")
@pytest.mark.parametrize("fault", ["down", "hanging"])
def test_a_leader_that_cannot_renew_gives_up_before_another_may_lead(fault: str) -> None:
    @in_fake_time
    async def check() -> None:
        store = OneLease()
        lease = a_lease(store)
        await lease.acquire()
        setattr(store, fault, True)

        with pytest.raises(LeaseLost):
            await lease.keep()

        assert now() <= 10

    check()


@in_fake_time
async def test_a_short_outage_costs_nothing() -> None:
    store = OneLease()
    lease = a_lease(store)
    await lease.acquire()
    keeping = asyncio.create_task(lease.keep())
    store.down = True
    await asyncio.sleep(5)
    store.down = False

    await asyncio.sleep(60)

    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@in_fake_time
async def test_a_lease_held_by_another_is_lost_at_the_next_renewal() -> None:
    store = OneLease()
    lease = a_lease(store)
    await lease.acquire()
    store.edit(holderIdentity="thief")

    with pytest.raises(LeaseLost):
        await lease.keep()

    assert now() == 2
    assert store.holder == "thief"


@in_fake_time
async def test_a_lease_that_somebody_only_labelled_is_kept() -> None:
    store = OneLease()
    lease = a_lease(store)
    await lease.acquire()
    store.edit()
    keeping = asyncio.create_task(lease.keep())

    await asyncio.sleep(60)

    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@in_fake_time
async def test_a_deleted_lease_is_lost() -> None:
    store = OneLease()
    lease = a_lease(store)
    await lease.acquire()
    store.body = None

    with pytest.raises(LeaseLost):
        await lease.keep()


@in_fake_time
async def test_a_candidate_waits_out_an_api_server_that_is_down() -> None:
    store = OneLease()
    store.down = True
    acquiring = asyncio.create_task(a_lease(store).acquire())
    await asyncio.sleep(30)
    store.down = False

    await acquiring

    assert store.holder == "one"
