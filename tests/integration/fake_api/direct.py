"""The client port straight on the store, for tests with fake time: real sockets would stall the clock."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.integration.fake_api.faults import Faults
from tests.integration.fake_api.store import Mistyped, Refused, Store

from specfleet.cluster.client import Kind, Object
from specfleet.cluster.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
)
from specfleet.cluster.kubernetes_client import selector

ERRORS: dict[int, type[ClusterError]] = {
    400: Invalid,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Conflict,
}


class DirectClient:
    """Has every verb of `KubernetesClient`; ``calls`` counts them by verb and kind."""

    def __init__(
        self, store: Store, faults: Faults | None = None, unserved: frozenset[Kind] = frozenset()
    ) -> None:
        self.store = store
        self.faults = faults or Faults()
        self.unserved = unserved
        self.calls: Counter[tuple[str, str]] = Counter()

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return await self._call("get", kind, lambda: self.store.get(kind, namespace, name))

    async def list(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None]
    ) -> "list[Object]":
        return await self._call("list", kind, lambda: self.store.list(kind, namespace, selector(labels)))

    async def list_metadata(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None]
    ) -> "list[Object]":
        return await self.list(kind, namespace, labels)

    async def apply(self, kind: Kind, body: Object, *, manager: str, force: bool = True) -> Object:
        return await self._call("apply", kind, lambda: self.store.apply(kind, body, manager, force))

    async def apply_status(self, kind: Kind, body: Object, *, manager: str) -> Object:
        told: Object = await self._call(
            "apply_status", kind, lambda: self.store.apply_status(kind, body, manager)
        )
        if body["metadata"].get("uid", told["metadata"]["uid"]) != told["metadata"]["uid"]:
            raise Conflict("another object of the name")
        return told

    async def create(self, kind: Kind, body: Object) -> Object:
        return await self._call("create", kind, lambda: self.store.create(kind, body))

    async def replace(self, kind: Kind, body: Object) -> Object:
        return await self._call("replace", kind, lambda: self.store.replace(kind, body))

    async def merge_patch(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        return await self._call(
            "merge_patch", kind, lambda: self.store.merge_patch(kind, namespace, name, patch)
        )

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        try:
            await self._call("delete", kind, lambda: self.store.delete(kind, namespace, name))
        except NotFound:
            return

    @property
    def writes(self) -> int:
        return sum(count for (verb, _), count in self.calls.items() if verb not in {"get", "list"})

    async def _call(self, verb: str, kind: Kind, act: Callable[[], Any]) -> Any:
        self.calls[verb, kind.kind] += 1
        # A real call always gives the loop away.
        await asyncio.sleep(0)
        fault = self.faults.next(verb, kind.plural)
        if fault == "timeout":
            await asyncio.sleep(10)
            raise Unavailable(f"{verb} {kind.plural}: no answer")
        if isinstance(fault, int):
            raise ERRORS.get(fault, Unavailable)(f"{verb} {kind.plural}: {fault}")
        if kind in self.unserved:
            raise NotFound(f"{kind.plural} is not served")
        try:
            answer = act()
        except Mistyped as mistyped:
            raise Invalid(f"{verb} {kind.plural}: {mistyped.message}") from mistyped
        except Refused as refused:
            raise ERRORS.get(refused.status, Unavailable)(f"{verb} {kind.plural}: {refused}") from refused
        if fault == "lost answer":
            raise Unavailable(f"{verb} {kind.plural}: answer lost")
        return answer
