"""Changes of conditions: which of them are news, and what is said where nothing can be planned. Pure."""

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from specfleet.api.kinds import Object

# What reconcile owns of the status; the rest is the tuner's (design/api.md, and docs/decisions.md).
OWN_CONDITIONS = ("Ready", "Progressing", "Degraded", "ProposerCompatible")
OWN_FIELDS = ("observedGeneration", "fingerprint", "ready")
OWN_POOL_FIELDS = ("name", "replicas", "readyReplicas", "updatedReplicas", "slices")


def own_status(live: Object) -> Object:
    """Give reconcile's part of a live status, for the case that nothing new can be planned."""
    status = live.get("status") or {}
    own: Object = {key: status[key] for key in OWN_FIELDS if key in status}
    own["conditions"] = [entry for entry in status.get("conditions") or () if entry["type"] in OWN_CONDITIONS]
    own["pools"] = [
        {key: pool[key] for key in OWN_POOL_FIELDS if key in pool} for pool in status.get("pools") or ()
    ]
    return copy.deepcopy(own)


def invalid_status(live: Object, problems: Sequence[str], now: datetime) -> Object:
    """Say of a resource that cannot be read that nothing of its generation is in force; the counts stay."""
    own, generation, before = own_status(live), live["metadata"].get("generation"), _by_type(live)
    said = (
        ("Ready", "False", "Blocked", "the spec is invalid: see Degraded"),
        ("Progressing", "False", "Blocked", "every pool stays as it is: see Degraded"),
        ("Degraded", "True", "ResourceInvalid", "; ".join(problems)[:1024]),
    )
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": _since(before.get(kind, {}), status, now),
        }
        for kind, status, reason, message in said
    ]
    kinds = {kind for kind, *_ in said}
    others = [entry for entry in own["conditions"] if entry["type"] not in kinds]
    return {**own, "observedGeneration": generation, "conditions": [*others, *conditions]}


def _since(before: Mapping[str, Any], status: str, now: datetime) -> str:
    if before.get("status") == status:
        return str(before["lastTransitionTime"])
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def news(live: Object, status: Object) -> tuple[Mapping[str, Any], ...]:
    """Give the conditions whose status or reason has turned. Of those that are new only faults are news."""
    before = _by_type(live)
    return tuple(
        condition
        for condition in status.get("conditions", ())
        if (
            _stand(before[condition["type"]]) != _stand(condition)
            if condition["type"] in before
            else is_fault(condition)
        )
    )


def is_fault(condition: Mapping[str, Any]) -> bool:
    """Say whether a condition is worth a warning: a fault, or compatibility lost."""
    if condition["type"] == "Degraded":
        return bool(condition["status"] == "True")
    return (condition["type"], condition["status"]) == ("ProposerCompatible", "False")


def without_times(status: Object) -> Object:
    """Give the status as it is compared: a new time stamp alone is no reason to write."""
    conditions = [
        {key: value for key, value in entry.items() if key != "lastTransitionTime"}
        for entry in status.get("conditions", ())
    ]
    return {**status, "conditions": conditions}


def contains(live: Any, part: Any) -> bool:
    """Say whether every field of ``part`` is in ``live``. Items of lists are found by name or type."""
    if isinstance(part, dict):
        return isinstance(live, dict) and all(key in live and contains(live[key], part[key]) for key in part)
    if isinstance(part, list) and part and isinstance(part[0], dict):
        items = {_identity(item): item for item in live or ()}
        return all(contains(items.get(_identity(item)), item) for item in part)
    return bool(live == part) or (live is None and part in ([], {}))


def _by_type(live: Object) -> dict[str, dict[str, Any]]:
    return {entry["type"]: entry for entry in (live.get("status") or {}).get("conditions") or ()}


def _stand(condition: Mapping[str, Any]) -> tuple[str, str]:
    return condition["status"], condition["reason"]


def _identity(item: Mapping[str, Any]) -> Any:
    return item.get("type") or item.get("name")
