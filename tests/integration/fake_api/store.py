"""The state behind the fake API server, and the rules of Kubernetes that the operator relies on."""

import copy
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.integration.fake_api.fields import Path, flatten, unflatten

from specfleet.cluster.client import DEPLOYMENT, Kind, Object

SERVER_SET = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
AFFINITIES = ("nodeAffinity", "podAffinity", "podAntiAffinity")


class Refused(Exception):
    """An answer other than 2xx."""

    def __init__(self, status: int, reason: str, fields: tuple[str, ...] = (), message: str = "") -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.fields = fields
        self.reason = reason
        self.message = message or reason


class Mistyped(Refused):
    """As the real server: a plain 500, of which only the message says what is wrong."""

    def __init__(self, namespace: str, name: str, field: str) -> None:
        what = f"failed to create typed patch object ({namespace}/{name}; apps/v1, Kind=Deployment)"
        super().__init__(500, "", message=f"{what}: {field}: field not declared in schema")


@dataclass
class Entry:
    fields: dict[Path, Any]
    system: dict[str, Any]
    owners: dict[str, set[Path]] = field(default_factory=dict)
    read: Object | None = None


@dataclass(frozen=True)
class Change:
    version: int
    type: str
    kind: Kind
    body: Object


class Store:
    """Every object of a cluster. All methods are synchronous and atomic."""

    def __init__(self) -> None:
        self.version = 1
        self.oldest_change = 0
        self.changes: list[Change] = []
        self.listeners: set[Callable[[], None]] = set()
        self.entries: dict[tuple[Kind, str, str], Entry] = {}

    # reading

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return copy.deepcopy(self._read(kind, namespace, name))

    def list(self, kind: Kind, namespace: str | None, selector: str = "") -> "list[Object]":
        return [
            self.get(kind, space, name)
            for found, space, name in sorted(self.entries, key=lambda key: key[1:])
            if found == kind and namespace in {None, space}
            if matches(self._read(kind, space, name), selector)
        ]

    # writing

    def create(self, kind: Kind, body: Object, manager: str = "creator") -> Object:
        metadata = body["metadata"]
        if (kind, metadata.get("namespace", ""), metadata["name"]) in self.entries:
            raise Refused(409, "AlreadyExists")
        return self._insert(kind, body, manager)

    def replace(self, kind: Kind, body: Object, manager: str = "editor") -> Object:
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        entry = self._entry(kind, namespace, name)
        self._check_preconditions(entry, body)
        before = dict(entry.fields)
        status = {path: value for path, value in before.items() if path[0] == "status"}
        entry.fields = flatten(_user_part(body)) | status
        _take(entry, manager, {path for path, value in entry.fields.items() if before.get(path) != value})
        return self._written(kind, namespace, name, entry, before)

    def merge_patch(
        self, kind: Kind, namespace: str, name: str, patch: Object, manager: str = "editor"
    ) -> Object:
        return self.replace(kind, merged(self.get(kind, namespace, name), patch), manager)

    def apply(self, kind: Kind, body: Object, manager: str, force: bool = True) -> Object:
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        if "managedFields" in body["metadata"]:
            raise Refused(400, "BadRequest")
        if kind == DEPLOYMENT:
            _check_affinity(body)
        entry = self.entries.get((kind, namespace, name))
        if entry is None:
            # As the real server: a uid in the body means "this one only".
            if "uid" in body["metadata"]:
                raise Refused(409, "Conflict")
            return self._insert(kind, body, manager)
        self._check_preconditions(entry, body)
        return self._apply(kind, namespace, name, entry, flatten(_user_part(body)), manager, force)

    def apply_status(self, kind: Kind, body: Object, manager: str) -> Object:
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        entry = self._entry(kind, namespace, name)
        # As the real server: a uid in the body is not looked at here.
        fields = flatten(copy.deepcopy(body.get("status", {})), ("status",))
        return self._apply(kind, namespace, name, entry, fields, manager + "/status", force=True)

    def set_status(self, kind: Kind, namespace: str, name: str, status: Object) -> Object:
        """What a built-in controller does: replace the status."""
        entry = self._entry(kind, namespace, name)
        before = dict(entry.fields)
        entry.fields = {path: value for path, value in before.items() if path[0] != "status"}
        entry.fields |= flatten(status, ("status",))
        return self._written(kind, namespace, name, entry, before)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        body = self.get(kind, namespace, name)
        del self.entries[kind, namespace, name]
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self._publish(Change(self.version, "DELETED", kind, body))
        self.collect_garbage()

    def collect_garbage(self) -> None:
        """Delete what only dead owners own."""
        alive = {entry.system["uid"] for entry in self.entries.values()}
        for kind, namespace, name in list(self.entries):
            if (kind, namespace, name) not in self.entries:
                continue
            owners = self._read(kind, namespace, name)["metadata"].get("ownerReferences", [])
            if owners and not any(owner["uid"] in alive for owner in owners):
                self.delete(kind, namespace, name)

    def compact(self) -> None:
        """Forget all changes: a watch or a page from before gets 410."""
        self.oldest_change = self.version
        self.changes.clear()

    # rules

    def _apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        entry: Entry,
        wanted: dict[Path, Any],
        manager: str,
        force: bool,
    ) -> Object:
        before = dict(entry.fields)
        owned_before = {who: set(owned) for who, owned in entry.owners.items()}
        differing = {path for path, value in wanted.items() if path in before and before[path] != value}
        others = set().union(*(owned for who, owned in entry.owners.items() if who != manager))
        if not force and differing & others:
            raise Refused(409, "Conflict")
        for path in entry.owners.get(manager, set()) - wanted.keys() - others:
            entry.fields.pop(path, None)
        # An empty map or list-map claims nothing of what others have put into it.
        wanted = {
            path: value for path, value in wanted.items() if value not in ({}, []) or not _below(before, path)
        }
        # Any other leaf replaces whatever was above or below it.
        for path in wanted:
            _clear(entry.fields, path)
        entry.fields |= wanted
        _take(entry, manager, differing)
        entry.owners[manager] = set(wanted)
        if entry.fields == before and entry.owners != owned_before:
            return self._stamp("MODIFIED", kind, namespace, name, entry)
        return self._written(kind, namespace, name, entry, before)

    def _insert(self, kind: Kind, body: Object, manager: str) -> Object:
        fields = flatten(_user_part(body))
        system = {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        entry = Entry(fields, system, {manager: set(fields)})
        self.entries[kind, namespace, name] = entry
        created = self._stamp("ADDED", kind, namespace, name, entry)
        self.collect_garbage()
        return created

    def _written(
        self, kind: Kind, namespace: str, name: str, entry: Entry, before: dict[Path, Any]
    ) -> Object:
        if entry.fields == before:
            return self.get(kind, namespace, name)
        if _spec(entry.fields) != _spec(before):
            entry.system["generation"] += 1
        return self._stamp("MODIFIED", kind, namespace, name, entry)

    def _stamp(self, change: str, kind: Kind, namespace: str, name: str, entry: Entry) -> Object:
        self.version += 1
        entry.system["resourceVersion"] = str(self.version)
        body = self._body(kind, namespace, name, entry)
        self._publish(Change(self.version, change, kind, body))
        return copy.deepcopy(body)

    def _publish(self, change: Change) -> None:
        self.changes.append(change)
        for listener in tuple(self.listeners):
            listener()

    def _check_preconditions(self, entry: Entry, body: Object) -> None:
        if body["metadata"].get("uid", entry.system["uid"]) != entry.system["uid"]:
            raise Refused(422, "Invalid", ("metadata.uid",))
        if (
            body["metadata"].get("resourceVersion", entry.system["resourceVersion"])
            != entry.system["resourceVersion"]
        ):
            raise Refused(409, "Conflict")

    def _entry(self, kind: Kind, namespace: str, name: str) -> Entry:
        if (kind, namespace, name) not in self.entries:
            raise Refused(404, "NotFound")
        return self.entries[kind, namespace, name]

    def _read(self, kind: Kind, namespace: str, name: str) -> Object:
        """Give an object without a copy: callers look at it and no more."""
        entry = self._entry(kind, namespace, name)
        version = entry.system["resourceVersion"]
        if entry.read is None or entry.read["metadata"]["resourceVersion"] != version:
            entry.read = self._body(kind, namespace, name, entry)
        return entry.read

    def _body(self, kind: Kind, namespace: str, name: str, entry: Entry) -> Object:
        body = unflatten(entry.fields)
        system = {key: value for key, value in entry.system.items() if key != "generation" or "spec" in body}
        scope = {"namespace": namespace} if namespace else {}
        managers = [{"manager": manager} for manager in entry.owners]
        metadata = {**body.get("metadata", {}), "name": name, **scope, **system, "managedFields": managers}
        return copy.deepcopy(
            {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        )


def _check_affinity(deployment: Object) -> None:
    """Refuse fields that an affinity lacks: of a pod it is what users write unchecked."""
    spec = deployment.get("spec", {}).get("template", {}).get("spec", {})
    for name in spec.get("affinity", {}):
        if name not in AFFINITIES:
            metadata, field = deployment["metadata"], f".spec.template.spec.affinity.{name}"
            raise Mistyped(metadata["namespace"], metadata["name"], field)


def matches(body: Object, selector: str) -> bool:
    labels = body["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if (labels.get(key) != value) if equals else (key not in labels):
            return False
    return True


def merged(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    base = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), value)
    return base


def _user_part(body: Object) -> Object:
    plain: Object = json.loads(json.dumps(body))
    plain["metadata"] = {
        key: value
        for key, value in plain["metadata"].items()
        if key not in (*SERVER_SET, "name", "namespace")
    }
    return {key: value for key, value in plain.items() if key not in {"apiVersion", "kind", "status"}}


def _spec(fields: dict[Path, Any]) -> dict[Path, Any]:
    return {path: value for path, value in fields.items() if path and path[0] == "spec"}


def _take(entry: Entry, manager: str, paths: set[Path]) -> None:
    for owned in entry.owners.values():
        owned.difference_update(paths)
    entry.owners.setdefault(manager, set()).update(paths)


def _below(fields: dict[Path, Any], path: Path) -> bool:
    return any(other != path and other[: len(path)] == path for other in fields)


def _clear(fields: dict[Path, Any], path: Path) -> None:
    for other in [found for found in fields if found != path]:
        if other[: len(path)] == path or path[: len(other)] == other:
            del fields[other]
