"""Whose object is it? An object of a wanted name that is not ours is never taken over."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from specfleet.api.kinds import RECONCILE_MANAGER, TUNER_MANAGER
from specfleet.api.resource import KIND, SpeculativeDeployment
from specfleet.engines.engine import Refusal
from specfleet.planning.observed import ObjectKey

NAME_CONFLICT = "NameConflict"
WAITING_FOR_DELETION = "WaitingForDeletion"


class Ownership(Enum):
    """ABSENT and OURS may be applied. LEAVING is about to be deleted: wait. FOREIGN: hands off."""

    ABSENT = "absent"
    OURS = "ours"
    LEAVING = "leaving"
    FOREIGN = "foreign"


def ownership(resource: SpeculativeDeployment, live: Mapping[str, Any] | None) -> Ownership:
    """Classify one live object by its controller reference.

    An object without a controller is ours if one of our field managers wrote it: the owner reference was lost
    (an orphaning delete, or a schedule that was written while its ConfigMap was deleted).
    """
    if live is None:
        return Ownership.ABSENT
    metadata = live["metadata"]
    if metadata.get("deletionTimestamp"):
        return Ownership.LEAVING
    controller = _controller(live)
    if controller is None:
        managers = {entry.get("manager") for entry in metadata.get("managedFields") or ()}
        return Ownership.OURS if managers & {RECONCILE_MANAGER, TUNER_MANAGER} else Ownership.FOREIGN
    if controller.get("uid") == resource.uid:
        return Ownership.OURS
    if controller.get("kind") == KIND and controller.get("name") == resource.name:
        return Ownership.LEAVING  # of a deleted resource of the same name; the garbage collector has it
    return Ownership.FOREIGN


def is_controlled(resource: SpeculativeDeployment, live: Mapping[str, Any]) -> bool:
    """Say whether the resource is the object's controller: then the garbage collector knows it too."""
    controller = _controller(live)
    return controller is not None and controller.get("uid") == resource.uid


def _controller(live: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((ref for ref in live["metadata"].get("ownerReferences") or () if ref.get("controller")), None)


def ownership_refusal(
    resource: SpeculativeDeployment, key: ObjectKey, live: Mapping[str, Any] | None, pool: str | None
) -> Refusal | None:
    """Say why an object of a wanted name may not be applied; None: it may.

    One that all pools share holds none of them: they serve through their own Services.
    """
    kind, name = key
    match ownership(resource, live):
        case Ownership.ABSENT | Ownership.OURS:
            return None
        case Ownership.LEAVING:
            message = f"{kind.kind} {name} is still being deleted; specfleet creates it anew after that"
            return Refusal(WAITING_FOR_DELETION, message, pool, holds=pool is not None)
        case Ownership.FOREIGN:
            rename = "the resource" if pool is None else f"the resource or its pool {pool}"
            message = f"{kind.kind} {name} belongs to somebody else: delete it, or rename it or {rename}"
            return Refusal(NAME_CONFLICT, message, pool, holds=pool is not None)
