"""The store over HTTP, as far as kopf and kubernetes.aio use it: discovery, pages, watches, faults."""

import asyncio
import json
from bisect import bisect
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from kubernetes.aio.client import Configuration
from tests.integration.fake_api.faults import Faults
from tests.integration.fake_api.store import Change, Refused, Store, matches

from specfleet.cluster.client import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD,
    SERVICE,
    SPECULATIVE_DEPLOYMENT,
    Kind,
)
from specfleet.cluster.events import EVENT
from specfleet.cluster.lease import LEASE

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces")
CORE_EVENT = Kind("", "v1", "Event", "events")
SERVED = (
    SPECULATIVE_DEPLOYMENT,
    DEPLOYMENT,
    SERVICE,
    CONFIG_MAP,
    POD,
    DISRUPTION_BUDGET,
    LEASE,
    EVENT,
    CRD,
    NAMESPACE,
    CORE_EVENT,
)
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired"}
CLUSTER_SCOPED = {CRD, NAMESPACE}


@dataclass(frozen=True)
class Target:
    kind: Kind
    namespace: str
    name: str
    subresource: str


@dataclass
class WatchFaults:
    """What happens to the next events of all watches together."""

    lose: int = 0
    duplicate: int = 0
    stalled: bool = False


class FakeServer:
    """Use as ``async with``; ``connection`` then points at it."""

    def __init__(self, store: Store | None = None, bookmark_seconds: float = 0.5) -> None:
        self.store = store or Store()
        self.faults = Faults()
        self.watch_faults = WatchFaults()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.selectors: dict[str, str] = {}
        self.watchers = 0
        self._ending = asyncio.Event()
        self._expire = False
        self.released = asyncio.Event()  # ends every call that a "timeout" fault holds
        self._bookmark_seconds = bookmark_seconds
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> "FakeServer":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.released.set()
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def connection(self) -> Configuration:
        connection = Configuration(host=self.url)
        connection.client_session_kwargs = {"trust_env": False}
        return connection

    def end_watches(self, *, expired: bool) -> None:
        """Close every watch; ``expired``: with the error 410 that makes a client list again."""
        self._expire = expired
        self._ending.set()
        self._ending = asyncio.Event()

    def writes(self, *, besides: tuple[str, ...] = ("leases",)) -> int:
        return sum(n for (verb, plural), n in self.calls.items() if verb != "GET" and plural not in besides)

    async def _answer(self, request: web.Request) -> web.StreamResponse:  # noqa: PLR0911 - one line a fault
        if (found := _discovery(request.path)) is not None:
            return web.json_response(found)
        target = _target(request.path)
        if target is None:
            return _status(404, "NotFound")
        self.calls[request.method, target.kind.plural] += 1
        fault = None if request.query.get("watch") else self.faults.next(request.method, request.path)
        if fault == "timeout":
            await self.released.wait()
            return _status(504, "Timeout")
        if isinstance(fault, int):
            return _status(fault, "Injected")
        try:
            if request.query.get("watch"):
                return await self._watch(request, target)
            body = await (
                self._write(request, target) if request.method != "GET" else self._read(request, target)
            )
        except Refused as refused:
            return _status(refused.status, refused.reason, refused.fields, refused.message)
        if fault == "lost answer":
            return _status(500, "InternalError")
        return web.json_response(body, status=201 if request.method == "POST" else 200)

    async def _read(self, request: web.Request, target: Target) -> Any:
        if target.name:
            return self.store.get(target.kind, target.namespace, target.name)
        return self._page(request, target)

    async def _write(self, request: web.Request, target: Target) -> Any:
        kind, namespace, name = target.kind, target.namespace, target.name
        body = json.loads(await request.text() or "{}")
        if request.method == "DELETE":
            self.store.delete(kind, namespace, name)
            return {"kind": "Status", "status": "Success"}
        if request.method == "PATCH" and request.content_type == "application/merge-patch+json":
            return self.store.merge_patch(kind, namespace, name, body)
        body["metadata"] = {**body.get("metadata", {}), "namespace": namespace}
        if request.method == "POST":
            return self.store.create(kind, body)
        if request.method == "PUT":
            return self.store.replace(kind, body)
        manager = request.query["fieldManager"]
        if target.subresource == "status":
            return self.store.apply_status(kind, body, manager)
        return self.store.apply(kind, body, manager, request.query.get("force") == "true")

    def _page(self, request: web.Request, target: Target) -> Any:
        everything = self.store.list(
            target.kind, target.namespace or None, request.query.get("labelSelector", "")
        )
        limit = int(request.query.get("limit", 0)) or len(everything) or 1
        version, start = self.store.version, 0
        if token := request.query.get("continue"):
            version, start = (int(part) for part in token.split("-"))
            if version < self.store.oldest_change:
                raise Refused(410, "Expired")
        metadata: dict[str, str] = {"resourceVersion": str(version)}
        if start + limit < len(everything):
            metadata["continue"] = f"{version}-{start + limit}"
        items = everything[start : start + limit]
        if "PartialObjectMetadataList" in request.headers.get("Accept", ""):
            items = [{"metadata": item["metadata"]} for item in items]
        return {"kind": f"{target.kind.kind}List", "apiVersion": "v1", "metadata": metadata, "items": items}

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        since = int(request.query.get("resourceVersion") or self.store.version)
        if since < self.store.oldest_change:
            await _send(response, "ERROR", EXPIRED)
            return response
        selector = self.selectors[target.kind.plural] = request.query.get("labelSelector", "")
        ending = self._ending
        self.watchers += 1
        try:
            async for kind, body in self._events(target, selector, since, ending):
                await _send(response, kind, body)
            if self._expire:
                await _send(response, "ERROR", EXPIRED)
        except ConnectionError:
            pass
        finally:
            self.watchers -= 1
        return response

    async def _events(
        self, target: Target, selector: str, since: int, ending: asyncio.Event
    ) -> AsyncIterator[tuple[str, Any]]:
        changed = asyncio.Event()
        self.store.listeners.add(changed.set)
        try:
            while not ending.is_set():
                changed.clear()
                # A stalled stream goes on from where it was, unless it is given up first.
                if not self.watch_faults.stalled:
                    for change in self.store.changes[bisect(self.store.changes, since, key=_version) :]:
                        since = change.version
                        in_scope = target.namespace in {"", change.body["metadata"].get("namespace")}
                        if change.kind == target.kind and in_scope and matches(change.body, selector):
                            for _ in range(self._deliveries()):
                                yield change.type, change.body
                    bookmark = {"metadata": {"resourceVersion": str(since)}, "kind": target.kind.kind}
                    yield "BOOKMARK", bookmark
                try:
                    async with asyncio.timeout(self._bookmark_seconds):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            self.store.listeners.discard(changed.set)

    def _deliveries(self) -> int:
        if self.watch_faults.lose:
            self.watch_faults.lose -= 1
            return 0
        if self.watch_faults.duplicate:
            self.watch_faults.duplicate -= 1
            return 2
        return 1


def _version(change: Change) -> int:
    return change.version


async def _send(response: web.StreamResponse, kind: str, body: Any) -> None:
    await response.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")


def _status(code: int, reason: str, fields: tuple[str, ...] = (), message: str = "") -> web.Response:
    details = {"causes": [{"field": field} for field in fields]}
    told = {"reason": reason, "message": message or reason}
    body = {"kind": "Status", "code": code, **told, "details": details}
    return web.json_response(body, status=code)


def _target(path: str) -> Target | None:
    parts = path.strip("/").split("/")
    root = 2 if parts[0] == "api" else 3
    group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
    rest, namespace = parts[root:], ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    for kind in SERVED:
        if (kind.group, kind.version, kind.plural) == (group, version, rest[0] if rest else ""):
            return Target(kind, namespace, *[*rest[1:3], "", ""][:2])
    return None


def _discovery(path: str) -> Any:
    groups = sorted({(kind.group, kind.version) for kind in SERVED if kind.group})
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {
            "kind": "APIGroupList",
            "groups": [
                {"name": group, "versions": [entry], "preferredVersion": entry}
                for group, version in groups
                for entry in [{"groupVersion": f"{group}/{version}", "version": version}]
            ],
        }
    roots = {f"/apis/{group}/{version}": (group, version) for group, version in groups} | {
        "/api/v1": ("", "v1")
    }
    if path not in roots:
        return None
    resources = [
        {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "kind": kind.kind,
            "namespaced": kind not in CLUSTER_SCOPED,
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }
        for kind in SERVED
        if (kind.group, kind.version) == roots[path]
    ]
    return {"kind": "APIResourceList", "resources": resources}
