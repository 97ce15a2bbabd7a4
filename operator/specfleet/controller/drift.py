"""Has somebody changed a child since we last looked? Then everything of its resource is applied again.

The hash annotation on a child says only what was wanted; it survives an edit of the other fields by hand.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from specfleet.planning.names import APPLIED_HASH, SCHEDULE_KEY
from specfleet.planning.observed import ObjectKey

# Of metadata only what we write: controllers annotate too. Of the data the schedule is the tuner's, and
# status is the controllers'.
OWN_PREFIXES = ("specfleet.dev/", "app.kubernetes.io/")


def digests(objects: Mapping[ObjectKey, Mapping[str, Any]]) -> dict[ObjectKey, str]:
    """Give one digest per object that reconcile applied, over the fields that it may own.

    What the tuner remembers lies in an object of its own, which comes and goes without being drift.
    """
    return {key: _digest(live) for key, live in objects.items() if _is_applied(live)}


def _is_applied(live: Mapping[str, Any]) -> bool:
    return APPLIED_HASH in (live["metadata"].get("annotations") or {})


def _digest(live: Mapping[str, Any]) -> str:
    metadata = live["metadata"]
    part = {
        "uid": metadata.get("uid"),
        "owners": metadata.get("ownerReferences"),
        "labels": _own(metadata.get("labels")),
        "annotations": _own(metadata.get("annotations")),
        "spec": live.get("spec"),
        "data": {key: value for key, value in (live.get("data") or {}).items() if key != SCHEDULE_KEY},
    }
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()


def _own(entries: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (entries or {}).items() if key.startswith(OWN_PREFIXES)}
