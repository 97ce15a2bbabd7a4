"""The ConfigMap that a slice's pods mount: its metadata is reconcile's, its data are the tuner's.

Reconcile writes the data only once, so that pods have a schedule before the first tuning pass.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from specfleet.api.kinds import CONFIG_MAP, Object
from specfleet.api.objectives import effective_tuning
from specfleet.api.schedule import Document, Table, flat
from specfleet.planning import names
from specfleet.planning.manifest import manifest
from specfleet.planning.pool_design import SCHEDULE_KEY, PoolDesign


def schedule_map(design: PoolDesign) -> Object:
    """Render the ConfigMap without data."""
    labels = names.labels(design.resource.name, design.pool.name, names.ACTIVE)
    return manifest(CONFIG_MAP, design.resource, design.schedule, labels)


def first_schedule(
    design: PoolDesign, live: Mapping[str, Any] | None, fence: int, now: datetime
) -> Object | None:
    """Render the first data, for the tuner's field manager; None: there is a schedule already."""
    if live is not None and (live.get("data") or {}).get(SCHEDULE_KEY):
        return None
    depth = design.resource.spec.speculation.depth
    document = Document(version=1, fence=fence, max_depth=depth.max, table=_table(design), issued_at=now)
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {"name": design.schedule, "namespace": design.resource.namespace},
        "data": {SCHEDULE_KEY: document.to_json()},
    }


def _table(design: PoolDesign) -> Table:
    """The manual pin of the pool, else of the resource, else flat at the initial depth."""
    spec = design.resource.spec
    return effective_tuning(spec, design.pool).schedule or flat(spec.speculation.depth.initial)
