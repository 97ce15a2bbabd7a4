"""Tables from depths by bin, and small changes to tables."""

from collections.abc import Callable, Sequence
from itertools import pairwise

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
    """Merge runs of equal depth that are too narrow; of two the one with more load keeps its depth."""
    runs = [[i] for i in range(len(depths))]
    chosen = list(depths)

    def load(run: list[int]) -> float:
        return sum(weights[i] for i in run)

    def narrow(run: list[int]) -> bool:
        return all_bins[run[-1]].last - all_bins[run[0]].first + 1 < MIN_WIDTH

    while len(runs) > 1:
        for left, right in pairwise(runs):
            same = chosen[left[0]] == chosen[right[0]]
            if same or narrow(left) or narrow(right):
                heavy = max((left, right), key=lambda run: (load(run), -chosen[run[0]]))
                depth = chosen[heavy[0]]
                left.extend(right)
                runs.remove(right)
                for i in left:
                    chosen[i] = depth
                break
        else:
            return chosen
    return chosen


def changed(table: Table, max_requests: int, depth: Callable[[int, int], int]) -> Table:
    """Rewrite a table: ``depth(running, depth so far)`` for every number of running requests."""
    rows: list[Row] = []
    for running in range(1, max_requests + 1):
        new = depth(running, depth_for(table, running))
        if rows and rows[-1].depth == new:
            rows.pop()
        rows.append(Row(running, new))
    return (*rows[:-1], Row(None, rows[-1].depth))


def written(table: Table) -> str:
    """Write a table for users: ``5 up to 8, 2 up to 48, then 0``."""
    if len(table) == 1:
        return str(table[0].depth)
    parts = [f"{row.depth} up to {row.max_requests}" for row in table[:-1]]
    return f"{', '.join(parts)}, then {table[-1].depth}"
