"""What to put back when somebody broke, removed or wound back a schedule by hand. Pure.

The engines keep their last good table meanwhile; without a good file a restarted pod would lose it.
"""

from datetime import datetime

from specfleet.api.objectives import table_of
from specfleet.api.schedule import Document, Table, flat
from specfleet.controller.fleet import PoolView


def mended(view: PoolView, known: Document | None, fence: int, now: datetime) -> Document | None:
    """Give the document to write; None: the live one stands, or reconcile has yet to write the first.

    ``known`` is the last good document that this process saw. Without one a broken file gets the table that
    status names: its fence is new to the engines, so they take it at version 1.
    """
    live = view.document
    if view.schedule is None or (live is None and known is None and not view.text):
        return None
    if live is not None and (known is None or _order(live) >= _order(known)):
        return None
    table = known.table if known is not None else _reported(view)
    version = known.version + 1 if known is not None and known.fence == fence else 1
    return Document(version, fence, view.resource.spec.speculation.depth.max, table, now)


def _order(document: Document) -> tuple[int, int]:
    return document.fence, document.version


def _reported(view: PoolView) -> Table:
    depth = view.resource.spec.speculation.depth
    for pool in view.resource.status.pools:
        if pool.name == view.pool.name and pool.schedule is not None:
            table = table_of(pool.schedule.table)
            return table if all(row.depth <= depth.max for row in table) else flat(depth.initial)
    return flat(depth.initial)
