"""The table of depths that a pod is started with and keeps, where its engine does not follow the schedule.

The tuner writes the schedule as for every other engine. Where the engine reads a table when it starts, the
schedule becomes a file beside it, and another table is another pod, rolled like any change. An annotation of
the pods says what they were started with: while they are rolled, old and new ones run by different tables.
Source: design/tuning.md, section 9.
"""

import json
from collections.abc import Mapping
from typing import Any

from specfleet.api.objectives import effective_tuning
from specfleet.api.resource import PoolSpec, SpeculativeDeployment
from specfleet.api.schedule import Document, Table, flat, from_rows, reachable, to_rows
from specfleet.engines.engine import Engine, ReadsTable
from specfleet.planning.names import SCHEDULE_KEY

TABLE_ANNOTATION = "specfleet.dev/table"


def start_table(
    resource: SpeculativeDeployment,
    pool: PoolSpec,
    engine: Engine,
    schedule: Mapping[str, Any] | None,
    running: Table | None,
) -> Table | None:
    """Give the table that new pods start with; None: they follow the schedule while they run.

    ``schedule``: the live ConfigMap. While it cannot be read, because somebody broke it by hand, the table
    stays ``running``, that of the pods there are.
    """
    spec = resource.spec
    match engine.actuation(spec).actuator:
        case "live":
            return None
        case "fixed":
            return flat(0 if spec.speculation.method == "none" else spec.speculation.depth.initial)
        case "rollout":
            text = ((schedule or {}).get("data") or {}).get(SCHEDULE_KEY)
            try:
                table = Document.from_json(text).table if text else None
            except ValueError:
                table = running
            return reachable(table or first_table(resource, pool), spec.engine.max_num_seqs)


def first_table(resource: SpeculativeDeployment, pool: PoolSpec) -> Table:
    """The manual pin of the pool, else of the resource, else flat at the initial depth."""
    pinned = effective_tuning(resource.spec, pool).schedule
    return pinned or flat(resource.spec.speculation.depth.initial)


def table_files(resource: SpeculativeDeployment, engine: Engine, table: Table | None) -> dict[str, str]:
    """Write a table as the engine reads it, by name of the file; empty: it reads none."""
    spec = resource.spec
    if table is None or not isinstance(engine, ReadsTable) or engine.actuation(spec).actuator != "rollout":
        return {}
    return {engine.table_key: engine.table_text(spec, table)}


def table_annotation(table: Table | None) -> dict[str, str]:
    """Give the annotation of pods that start with a table; empty: none."""
    return {} if table is None else {TABLE_ANNOTATION: json.dumps(to_rows(table))}


def started_with(metadata: Mapping[str, Any]) -> Table | None:
    """Read the table back from a pod's or a template's metadata; None: there is none, or no readable one."""
    text = (metadata.get("annotations") or {}).get(TABLE_ANNOTATION)
    try:
        return None if text is None else from_rows(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
