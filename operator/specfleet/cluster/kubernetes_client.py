"""The adapter of `ClusterClient` over kubernetes.aio: raw JSON in and out, every call with a time limit.

The generated methods are not used: they differ between core and grouped kinds, build models, and their raw
variants do not raise on 4xx (kubernetes 37). One path and one check of the status serve every kind.
Nothing is retried here: the work queue is the retry.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

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

# Named here, since a method of the class is called list.
Objects = list[Object]
Query = list[tuple[str, str]]

PAGE_SIZE = 500
TIMEOUT_SECONDS = 10.0
# Characters of the message of a 403: it ends in a condition, beside others.
LONGEST_REFUSAL = 500
# A list may expire between two pages again and again only if it is slower than etcd's compaction.
LIST_ATTEMPTS = 3

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

# Which field, and what is wrong with it; the value may follow behind a comma.
_MISTYPED_FIELD = re.compile(r"(?:^ *|\): )([.]\S+: [^,\n]+)", re.MULTILINE)

_ERRORS: dict[int, type[ClusterError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: Invalid,
    415: Invalid,
    422: Invalid,
}


class KubernetesClient:
    """Use as ``async with``: the connection pool is closed at the end."""

    def __init__(self, connection: Configuration, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._api = ApiClient(connection)
        self._timeout_seconds = timeout_seconds
        self._answered = asyncio.get_running_loop().time()

    async def __aenter__(self) -> "KubernetesClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]

    @property
    def seconds_since_answer(self) -> float:
        """How long the API server has not answered anything, whatever it was."""
        return asyncio.get_running_loop().time() - self._answered

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return await self._call("GET", _path(kind, namespace, name))

    async def list(self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None]) -> Objects:
        return await self._list_all(kind, namespace, labels, "application/json")

    async def list_metadata(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None]
    ) -> Objects:
        """Like `list`, but the objects hold only apiVersion, kind and metadata."""
        return await self._list_all(kind, namespace, labels, METADATA_LIST)

    async def apply(self, kind: Kind, body: Object, *, manager: str, force: bool = True) -> Object:
        return await self._apply(_object_path(kind, body), body, manager, force)

    async def apply_status(self, kind: Kind, body: Object, *, manager: str) -> Object:
        told = await self._apply(_object_path(kind, body) + "/status", body, manager, force=True)
        # The API server takes a custom resource's status whatever the uid (seen on 1.35): the caller must at
        # least not believe that its own object has it.
        if body["metadata"].get("uid", told["metadata"]["uid"]) != told["metadata"]["uid"]:
            raise Conflict(f"{kind.plural} {body['metadata']['name']} is not the object that was read")
        return told

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        try:
            await self._call("DELETE", _path(kind, namespace, name), body={"propagationPolicy": "Background"})
        except NotFound:
            return

    async def create(self, kind: Kind, body: Object) -> Object:
        """Create one object (leases and Events only). Raises Conflict if it exists."""
        return await self._call("POST", _path(kind, body["metadata"]["namespace"]), body=body)

    async def replace(self, kind: Kind, body: Object) -> Object:
        """Replace one object (leases only). Raises Conflict unless its resourceVersion is the newest."""
        return await self._call("PUT", _object_path(kind, body), body=body)

    async def merge_patch(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        """Patch one object (Events only, which have no owner to fight with)."""
        return await self._call("PATCH", _path(kind, namespace, name), body=patch, content_type=MERGE_PATCH)

    async def _apply(self, path: str, body: Object, manager: str, force: bool) -> Object:
        query = [("fieldManager", manager), ("force", "true" if force else "false")]
        return await self._call("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)

    async def _list_all(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None], accept: str
    ) -> Objects:
        for _ in range(LIST_ATTEMPTS - 1):
            try:
                return await self._pages(kind, namespace, labels, accept)
            except Expired:
                continue
        return await self._pages(kind, namespace, labels, accept)

    async def _pages(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None], accept: str
    ) -> Objects:
        query = [("limit", str(PAGE_SIZE))]
        if labels:
            query.append(("labelSelector", selector(labels)))
        items: list[Object] = []
        continuation: list[tuple[str, str]] = []
        while True:
            page = await self._call(
                "GET", _path(kind, namespace or ""), query=query + continuation, accept=accept
            )
            for item in page.get("items") or ():
                # The items of a list do not say what they are.
                items.append({**item, "apiVersion": kind.api_version, "kind": kind.kind})
            token = page.get("metadata", {}).get("continue")
            if not token:
                return items
            continuation = [("continue", token)]

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        headers = {"Accept": accept, "Content-Type": content_type}
        what = f"{method} {path}"
        try:
            async with asyncio.timeout(self._timeout_seconds):
                request = await self._api.param_serialize(
                    method,
                    path,
                    query_params=query,
                    header_params=headers,
                    body=body,
                    auth_settings=["BearerToken"],
                )
                response = await self._api.call_api(*request, _request_timeout=self._timeout_seconds)
                text = await response.read()  # type: ignore[no-untyped-call]
        except TimeoutError as error:
            raise Unavailable(f"{what}: no answer within {self._timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{what}: {type(error).__name__}") from error
        self._answered = asyncio.get_running_loop().time()
        if response.status >= 300:
            raise _error(response.status, text)(f"{what}: {response.status}{_reason(response.status, text)}")
        return _parsed(text, what)


def selector(labels: Mapping[str, str | None]) -> str:
    """Write a label selector; a value of None asks only that the label is there."""
    return ",".join(key if value is None else f"{key}={value}" for key, value in labels.items())


def _path(kind: Kind, namespace: str, name: str = "") -> str:
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{kind.plural}" + (f"/{name}" if name else "")


def _object_path(kind: Kind, body: Object) -> str:
    metadata = body["metadata"]
    return _path(kind, metadata["namespace"], metadata["name"])


def _parsed(text: bytes, what: str) -> Object:
    try:
        answer = json.loads(text, object_hook=_without_nulls)
    except ValueError as error:
        raise Unavailable(f"{what}: the answer is not JSON; is this a Kubernetes API server?") from error
    if not isinstance(answer, dict):
        raise Unavailable(f"{what}: the answer is not an object; is this a Kubernetes API server?")
    return answer


def _without_nulls(members: Object) -> Object:
    """Leave out members that are null: to the API a null member and an absent one are the same.

    Go writes an empty list without omitempty as null, such as the conditions of a CRD's status in its first
    moments; a reader's ``get(name, default)`` must give its default for both.
    """
    return {name: value for name, value in members.items() if value is not None}


def _error(status: int, text: bytes) -> type[ClusterError]:
    # Another object has the name by now: the API server calls that an attempt to change the uid.
    if status == 422 and _faults(text)[1] == ["metadata.uid"]:
        return Conflict
    # A field that the kind lacks: no fault of the server, as 500 would mean (kubernetes/kubernetes#139253).
    if status == 500 and _faults(text)[0] == "Invalid":
        return Invalid
    return _ERRORS.get(status, Unavailable)


def _reason(status: int, text: bytes) -> str:
    """Write the reason and the fields at fault. The message is added to a 403 only: others quote values."""
    reason, fields, message = _faults(text)
    why = f": {message[:LONGEST_REFUSAL]}" if status == 403 and message else ""
    return " " + reason + (f" ({', '.join(fields[:5])})" if fields else "") + why if reason else ""


def _faults(text: bytes) -> tuple[str, list[str], str]:
    """Give the reason, the fields at fault, and the message in one line."""
    try:
        status: dict[str, Any] = json.loads(text)
        message = str(status.get("message", ""))
        if message.startswith("failed to create typed patch object"):
            return "Invalid", _MISTYPED_FIELD.findall(message), ""
        causes = (status.get("details") or {}).get("causes") or []
        fields = sorted({str(cause["field"]) for cause in causes if cause.get("field")})
        return str(status.get("reason", "")), fields, " ".join(message.split())
    except (ValueError, AttributeError, TypeError, KeyError):
        return "", [], ""
