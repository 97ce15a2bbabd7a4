"""Flap freeze and the rule of two cells: design/tuning.md, section 7."""

from itertools import pairwise

import pytest

from specfleet.api.schedule import flat
from specfleet.tuning.bins import bins
from specfleet.tuning.steadiness import Steadiness, near_enough

BINS = bins(16)
HOUR = 3600.0
CANDIDATES = (0, 1, 2, 3, 5)


def pushed(*depths: int, every: float = 600.0) -> Steadiness:
    record = Steadiness()
    for i, (old, new) in enumerate(pairwise(depths)):
        record = record.after(flat(old), flat(new), BINS, every * i)
    return record


def test_going_on_in_one_direction_is_no_reversal() -> None:
    assert pushed(1, 2, 3, 5).reversals(1) == 0


def test_each_turn_is_a_reversal() -> None:
    assert pushed(2, 5, 2, 5).reversals(1) == 2


def test_a_cell_that_turned_three_times_freezes_at_the_smaller_depth_for_an_hour() -> None:
    record = pushed(2, 5, 2, 5, 2)

    assert record.is_frozen(1, 1800.0 + HOUR - 1)
    assert not record.is_frozen(1, 1800.0 + HOUR)


def test_a_cell_never_freezes_at_the_larger_depth() -> None:
    up = pushed(5, 2, 5, 2, 5)
    down = pushed(5, 2, 5, 2, 5, 2)

    assert not up.is_frozen(1, 2000.0)
    assert down.is_frozen(1, 2500.0)


def test_turns_of_more_than_an_hour_ago_are_forgotten() -> None:
    assert not pushed(2, 5, 2, 5, 2, every=1900.0).is_frozen(1, 3 * 1900.0)


def test_each_freeze_doubles_the_margin_up_to_eight_percent() -> None:
    record = Steadiness()
    margins = []
    for _ in range(4):
        for old, new in ((2, 5), (5, 2), (2, 5), (5, 2)):
            record = record.after(flat(old), flat(new), BINS, 0.0)
        record = Steadiness(frozen=record.frozen, margins=record.margins)
        margins.append(record.margin(1))

    assert margins == [0.03, 0.06, 0.08, 0.08]


def test_only_cells_that_moved_are_counted() -> None:
    record = pushed(2, 5, 2, 5, 2)

    assert record.after(flat(2), flat(2), BINS, 3000.0).moves == record.moves[-8 * 4 :]


@pytest.mark.fault("defilantech/LLMKube#1423")
def test_two_cells_move_as_far_as_they_want_and_the_others_one_notch() -> None:
    old, wanted = [2] * 8, [5] * 8
    weights = [0.1, 0.5, 0.3, 0.05, 0.05, 0.0, 0.0, 0.0]

    assert near_enough(old, wanted, weights, CANDIDATES) == [3, 5, 5, 3, 3, 3, 3, 3]


def test_downwards_it_is_the_same() -> None:
    assert near_enough([5, 5, 5], [0, 0, 0], [0.2, 0.5, 0.3], CANDIDATES) == [3, 0, 0]


def test_moves_of_one_notch_are_free() -> None:
    assert near_enough([2, 2, 2], [3, 1, 3], [0.0] * 3, CANDIDATES) == [3, 1, 3]
