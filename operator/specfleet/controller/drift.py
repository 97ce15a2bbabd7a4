"""Has somebody changed a child since we last looked? Then everything of its resource is applied again.

The hash annotation on a child says only what was wanted; it survives an edit of the other fields by hand.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from specfleet.planning.observed import ObjectKey

# Of metadata only what we write; data of the ConfigMaps is the tuner's, and status the controllers'.
_METADATA = ("uid", "labels", "annotations", "ownerReferences")


def digests(objects: Mapping[ObjectKey, Mapping[str, Any]]) -> dict[ObjectKey, str]:
    """Give one digest per object over the fields that reconcile may own."""
    return {key: _digest(live) for key, live in objects.items()}


def _digest(live: Mapping[str, Any]) -> str:
    metadata = live["metadata"]
    part = {"metadata": {key: metadata.get(key) for key in _METADATA}, "spec": live.get("spec")}
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()
