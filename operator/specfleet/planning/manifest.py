"""What all rendered objects share: metadata, owner, and the hash that lets reconcile skip them."""

import hashlib
import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from specfleet.api.kinds import Kind, Object
from specfleet.api.resource import GROUP, KIND, VERSION, SpeculativeDeployment
from specfleet.planning.names import APPLIED_HASH


def written(value: object) -> Any:
    """Turn a value of the resource into plain JSON data of its own.

    Defaults are written out: whether the API server stored them must make no difference.
    """
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return {str(key): written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in value]
    return deepcopy(value)


def manifest(
    kind: Kind,
    resource: SpeculativeDeployment,
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Object:
    """Render one child: owned by the resource, stamped with the hash of its content, annotations included.

    blockOwnerDeletion is false: true would need rights on finalizers where that admission check is on.
    """
    body: Object = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": resource.namespace,
            "labels": dict(labels),
            "ownerReferences": [
                {
                    "apiVersion": f"{GROUP}/{VERSION}",
                    "kind": KIND,
                    "name": resource.name,
                    "uid": resource.uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        **fields,
    }
    body["metadata"]["annotations"] = {**(annotations or {}), APPLIED_HASH: digest(body)}
    return body


def digest(value: object) -> str:
    """Hash JSON data; equal data give equal hashes, whatever the order of their keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def applied_hash(body: Mapping[str, Any]) -> str:
    """Read the hash that an object was rendered with; empty: none."""
    return str((body["metadata"].get("annotations") or {}).get(APPLIED_HASH, ""))
