"""Tables from depths by bin, and small changes to tables."""

from collections.abc import Callable, Sequence

from specfleet.api.schedule import Row, Table, depth_for
from specfleet.tuning.bins import Bin

MIN_WIDTH = 4  # narrower neighbours of different depth are merged: design/tuning.md, section 7


def table_of(depths: Sequence[int], all_bins: Sequence[Bin]) -> Table:
    """Write depths by bin as rows; the last row is open."""
    rows: list[Row] = []
    for depth, one in zip(depths, all_bins, strict=True):
        if rows and rows[-1].depth == depth:
            rows.pop()
        rows.append(Row(one.last, depth))
    return (*rows[:-1], Row(None, rows[-1].depth))


def widened(depths: Sequence[int], weights: Sequence[float], all_bins: Sequence[Bin]) -> list[int]:
    """Widen runs of equal depth that are too narrow.

    Of two neighbours the one with more load keeps its depth. A narrow run with the load takes bins of its
    neighbour until it is wide enough; one without joins its neighbour.
    """
    chosen = list(depths)
    while (narrow := _narrow_run(chosen, all_bins)) is not None:
        first, last = narrow
        left, right = _run_at(chosen, first - 1), _run_at(chosen, last + 1)
        beside = [run for run in (left, right) if run is not None]
        if not beside:
            return chosen
        heavy = max(beside, key=lambda run: (_load(run, weights), -chosen[run[0]]))
        if _load(narrow, weights) > _load(heavy, weights):
            chosen[last + 1 if right is not None else first - 1] = chosen[first]
        else:
            chosen[first : last + 1] = [chosen[heavy[0]]] * (last + 1 - first)
    return chosen


_Run = tuple[int, int]  # first and last index, inclusive


def _narrow_run(depths: Sequence[int], all_bins: Sequence[Bin]) -> _Run | None:
    run = _run_at(depths, 0)
    while run is not None:
        first, last = run
        if all_bins[last].last - all_bins[first].first + 1 < MIN_WIDTH:
            return run
        run = _run_at(depths, last + 1)
    return None


def _run_at(depths: Sequence[int], index: int) -> _Run | None:
    if not 0 <= index < len(depths):
        return None
    first = last = index
    while first > 0 and depths[first - 1] == depths[index]:
        first -= 1
    while last + 1 < len(depths) and depths[last + 1] == depths[index]:
        last += 1
    return first, last


def _load(run: _Run, weights: Sequence[float]) -> float:
    return sum(weights[run[0] : run[1] + 1])


def changed(table: Table, max_requests: int, depth: Callable[[int, int], int]) -> Table:
    """Rewrite a table: ``depth(running, depth so far)`` for every number of running requests."""
    rows: list[Row] = []
    for running in range(1, max_requests + 1):
        new = depth(running, depth_for(table, running))
        if rows and rows[-1].depth == new:
            rows.pop()
        rows.append(Row(running, new))
    return (*rows[:-1], Row(None, rows[-1].depth))


def clipped(table: Table, max_requests: int, most: int) -> Table:
    """Lower depths above ``most``, which engines would refuse."""
    if all(row.depth <= most for row in table):
        return table
    return changed(table, max_requests, lambda _, depth: min(depth, most))


def written(table: Table) -> str:
    """Write a table for users: ``5 up to 8, 2 up to 48, then 0``."""
    if len(table) == 1:
        return str(table[0].depth)
    parts = [f"{row.depth} up to {row.max_requests}" for row in table[:-1]]
    return f"{', '.join(parts)}, then {table[-1].depth}"
