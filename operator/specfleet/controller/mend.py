"""What to put back when somebody broke, removed or wound back a schedule by hand. Pure.

The engines keep their last good table meanwhile; without a good file a restarted pod would lose it.
"""

from datetime import datetime

from specfleet.api.objectives import table_of
from specfleet.api.schedule import Document, Table, flat, problems
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
    table, depth = known.table if known is not None else _reported(view), view.resource.spec.speculation.depth
    if problems(table, depth.max):  # depth.max was lowered since
        table = flat(depth.initial)
    version = known.version + 1 if known is not None and known.fence == fence else 1
    return Document(version, fence, depth.max, table, now)


def _order(document: Document) -> tuple[int, int]:
    return document.fence, document.version


def _reported(view: PoolView) -> Table:
    for pool in view.resource.status.pools:
        if pool.name == view.pool.name and pool.schedule is not None:
            return table_of(pool.schedule.table)
    return ()
