"""Bins, rows and widths: design/tuning.md, section 7."""

import random
from itertools import pairwise

import pytest

from specfleet.api.schedule import Row, Table, depth_for, flat, problems, reachable
from specfleet.tuning.bins import bin_of, bins
from specfleet.tuning.rows import changed, table_of, widened, written

BINS = bins(16)


def test_bins_start_where_the_design_says_and_end_with_the_engine() -> None:
    assert [(one.first, one.last) for one in BINS] == [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 5),
        (6, 7),
        (8, 11),
        (12, 15),
        (16, 16),
    ]


@pytest.mark.parametrize(("batch", "first"), [(1.0, 1), (1.6, 1), (1.8, 2), (5.9, 6), (15.9, 16), (16.0, 16)])
def test_a_mean_batch_falls_into_its_bin(batch: float, first: int) -> None:
    assert BINS[bin_of(batch, BINS)].first == first


@pytest.mark.parametrize(
    ("most", "rows"),
    [
        (4, (Row(None, 5),)),
        (5, (Row(4, 5), Row(None, 2))),
        (8, (Row(4, 5), Row(None, 2))),
        (32, (Row(4, 5), Row(8, 2), Row(None, 0))),
    ],
)
def test_a_table_is_cut_to_what_the_engine_can_run(most: int, rows: Table) -> None:
    table = (Row(2, 5), Row(4, 5), Row(8, 2), Row(None, 0))

    cut = reachable(table, most)

    assert cut == rows
    assert all(depth_for(cut, running) == depth_for(table, running) for running in range(1, most + 1))


def test_equal_neighbours_share_a_row_and_the_last_is_open() -> None:
    assert table_of([5, 5, 5, 5, 5, 2, 2, 0], BINS) == (Row(7, 5), Row(15, 2), Row(None, 0))


def test_a_run_narrower_than_four_takes_the_depth_that_has_the_load() -> None:
    weights = [1.0, 0, 0, 0, 0, 0, 0, 0]

    depths = widened([5, 2, 2, 2, 2, 2, 2, 2], weights, BINS)

    assert depth_for(table_of(depths, BINS), 1) == 5
    assert depths[-1] == 2


@pytest.mark.parametrize("seed", range(30))
def test_widened_tables_are_valid_and_no_row_is_narrow(seed: int) -> None:
    draw = random.Random(seed)
    depths = [draw.choice((0, 1, 2, 3, 5)) for _ in BINS]
    table = table_of(widened(depths, [draw.random() for _ in BINS], BINS), BINS)

    assert problems(table, 5) == ()
    starts = [0, *(row.max_requests or 16 for row in table)]
    assert all(end - start >= 4 for start, end in pairwise(starts))


def test_a_range_of_a_table_can_be_changed_alone() -> None:
    table = changed(flat(2), 16, lambda running, depth: 5 if 4 <= running <= 8 else depth)

    assert table == (Row(3, 2), Row(8, 5), Row(None, 2))


def test_tables_read_as_words() -> None:
    assert written((Row(8, 5), Row(48, 2), Row(None, 0))) == "5 up to 8, 2 up to 48, then 0"
    assert written(flat(3)) == "3"
