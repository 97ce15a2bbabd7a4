"""The table of depths as a file of the engine's own, where the engine reads it only when it starts.

The tuner writes the schedule as for every other engine; here it becomes a file beside it and an annotation of
the pods, so that another table is another pod, rolled like any change. Source: design/tuning.md, section 9.
"""

from collections.abc import Mapping
from typing import Any

from specfleet.api.objectives import effective_tuning
from specfleet.api.resource import PoolSpec, SpeculativeDeployment
from specfleet.api.schedule import Document, Table, flat
from specfleet.engines.engine import Engine, ReadsTable
from specfleet.planning.manifest import digest
from specfleet.planning.pool_design import SCHEDULE_KEY

TABLE_ANNOTATION = "specfleet.dev/table"


def table_files(
    resource: SpeculativeDeployment, pool: PoolSpec, engine: Engine, live: Mapping[str, Any] | None
) -> dict[str, str]:
    """Write the files of one pool. ``live``: its schedule ConfigMap. Empty: the engine reads none.

    While the schedule cannot be read, because somebody broke it by hand, the file stays what it is.
    """
    spec = resource.spec
    if not isinstance(engine, ReadsTable) or engine.actuation(spec).actuator != "rollout":
        return {}
    data = (live or {}).get("data") or {}
    try:
        table = Document.from_json(data[SCHEDULE_KEY]).table if data.get(SCHEDULE_KEY) else None
    except ValueError:
        if written := data.get(engine.table_key):
            return {engine.table_key: written}
        table = None
    return {engine.table_key: engine.table_text(spec, table or first_table(resource, pool))}


def first_table(resource: SpeculativeDeployment, pool: PoolSpec) -> Table:
    """The manual pin of the pool, else of the resource, else flat at the initial depth."""
    pinned = effective_tuning(resource.spec, pool).schedule
    return pinned or flat(resource.spec.speculation.depth.initial)


def table_annotation(files: Mapping[str, str]) -> dict[str, str]:
    """Give the annotation of pods that started with these files; empty: none."""
    return {TABLE_ANNOTATION: digest(dict(files))} if files else {}
