"""The leader lease: at most one operator writes, and its number of transitions fences what it pushes.

Always on, also with one replica: it catches two operators at work (kopf#1305). Only `loop.time()` is
compared, never two wall clocks. Source: reference guide, section 2.7.
"""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Protocol

from specfleet.api.configuration import LeaderElection
from specfleet.cluster.client import Kind, Object
from specfleet.cluster.errors import ClusterError, Conflict, NotFound

LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")

logger = logging.getLogger(__name__)


class LeaseStore(Protocol):
    """The calls that a lease needs; `KubernetesClient` has them."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object: ...

    async def create(self, kind: Kind, body: Object) -> Object: ...

    async def replace(self, kind: Kind, body: Object) -> Object: ...


class LeaseLost(Exception):
    """Another operator holds the lease, or it could not be renewed in time: stop writing at once."""


class Lease:
    """One candidate. `acquire`, then `keep` as a task for as long as the process lives, at last `release`."""

    def __init__(self, store: LeaseStore, *, namespace: str, identity: str, settings: LeaderElection) -> None:
        self._store = store
        self._namespace = namespace
        self._identity = identity
        self._settings = settings
        self._record: Object | None = None
        self.transitions = 0

    async def acquire(self) -> int:
        """Wait until the lease is ours. Gives the number of transitions, which rises with each leader."""
        unchanged_since = asyncio.get_running_loop().time()
        seen: object = None
        while True:
            try:
                record = await self._read()
                now = asyncio.get_running_loop().time()
                if record is None:
                    return await self._create()
                if (spec := record.get("spec") or {}) != seen:
                    seen, unchanged_since = spec, now
                if self._is_free(spec, now - unchanged_since):
                    return await self._take_over(record)
            except Conflict:
                logger.info("another candidate was faster to take the lease %s", self._settings.lease_name)
            except (ClusterError, TimeoutError) as error:
                logger.warning("the lease %s cannot be read or taken: %s", self._settings.lease_name, error)
            await asyncio.sleep(self._settings.retry_seconds)

    async def keep(self) -> None:
        """Renew for ever. Raises LeaseLost; the process must then exit without another write."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(self._settings.retry_seconds)
            deadline = renewed + self._settings.renew_deadline_seconds
            # Taken before the call: the others count from when the server stored it, which is later.
            asked = loop.time()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._renew()
                renewed = asked
            except (ClusterError, TimeoutError) as error:
                logger.warning("the lease %s could not be renewed: %s", self._settings.lease_name, error)
                if loop.time() + self._settings.retry_seconds >= deadline:
                    raise LeaseLost(
                        f"not renewed within {self._settings.renew_deadline_seconds:g} s: another may lead"
                    ) from error

    async def release(self) -> None:
        """Hand the lease back, so that the next operator need not wait. A failure only makes it wait."""
        if self._record is None:
            return
        try:
            async with asyncio.timeout(self._call_seconds):
                await self._store.replace(LEASE, self._with_spec(self._record, holder="", seconds=1))
        except (ClusterError, TimeoutError) as error:
            logger.warning("the lease %s was not released: %s", self._settings.lease_name, error)

    @property
    def _call_seconds(self) -> float:
        return self._settings.renew_deadline_seconds / 2

    def _is_free(self, spec: Object, unchanged_seconds: float) -> bool:
        # The other's own duration counts too: it may run with a longer one.
        duration = max(self._settings.duration_seconds, float(spec.get("leaseDurationSeconds") or 0))
        return not spec.get("holderIdentity") or unchanged_seconds >= duration

    async def _read(self) -> Object | None:
        try:
            async with asyncio.timeout(self._call_seconds):
                return await self._store.get(LEASE, self._namespace, self._settings.lease_name)
        except NotFound:
            return None

    async def _create(self) -> int:
        body: Object = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._settings.lease_name, "namespace": self._namespace},
            "spec": {"acquireTime": _now(), "leaseTransitions": 0},
        }
        async with asyncio.timeout(self._call_seconds):
            self._record = await self._store.create(LEASE, self._with_spec(body, holder=self._identity))
        return self._led()

    async def _take_over(self, record: Object) -> int:
        spec = record.get("spec") or {}
        body = self._with_spec(record, holder=self._identity)
        body["spec"] |= {
            "acquireTime": _now(),
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1,
        }
        async with asyncio.timeout(self._call_seconds):
            self._record = await self._store.replace(LEASE, body)
        return self._led()

    def _led(self) -> int:
        assert self._record is not None
        self.transitions = int(self._record["spec"].get("leaseTransitions") or 0)
        logger.info("leading as %s, transition %d", self._identity, self.transitions)
        return self.transitions

    async def _renew(self) -> None:
        assert self._record is not None
        try:
            async with asyncio.timeout(self._call_seconds):
                self._record = await self._store.replace(
                    LEASE, self._with_spec(self._record, holder=self._identity)
                )
        except (Conflict, NotFound) as conflict:
            current = await self._read()
            if current is None or (current.get("spec") or {}).get("holderIdentity") != self._identity:
                raise LeaseLost("another operator holds it, or it was deleted") from conflict
            self._record = current
            raise

    def _with_spec(self, record: Object, *, holder: str, seconds: int | None = None) -> Object:
        # The API server takes whole seconds and refuses 0.
        duration = seconds or max(1, round(self._settings.duration_seconds))
        spec = {**(record.get("spec") or {}), "holderIdentity": holder, "leaseDurationSeconds": duration}
        return {**record, "spec": {**spec, "renewTime": _now()}}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
