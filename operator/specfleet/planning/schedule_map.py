"""The ConfigMap that a slice's pods mount: the schedule in it is the tuner's, the rest is reconcile's.

Reconcile writes the schedule only once, so that pods have one before the first tuning pass.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from specfleet.api.kinds import CONFIG_MAP, Object
from specfleet.api.schedule import Document
from specfleet.planning import names
from specfleet.planning.manifest import manifest
from specfleet.planning.names import SCHEDULE_KEY
from specfleet.planning.pool_design import PoolDesign
from specfleet.planning.start_table import first_table


def schedule_map(design: PoolDesign) -> Object:
    """Render the ConfigMap without the schedule."""
    labels = names.labels(design.resource.name, design.pool.name, names.ACTIVE)
    data = {"data": dict(design.files)} if design.files else {}
    return manifest(CONFIG_MAP, design.resource, design.schedule, labels, **data)


def first_schedule(
    design: PoolDesign, live: Mapping[str, Any] | None, fence: int, now: datetime
) -> Object | None:
    """Render the first data, for the tuner's field manager; None: there is a schedule already."""
    if live is not None and (live.get("data") or {}).get(SCHEDULE_KEY):
        return None
    depth = design.resource.spec.speculation.depth
    document = Document(
        version=1,
        fence=fence,
        max_depth=depth.max,
        table=first_table(design.resource, design.pool),
        issued_at=now,
    )
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {"name": design.schedule, "namespace": design.resource.namespace},
        "data": {SCHEDULE_KEY: document.to_json()},
    }
