"""The reservoir of windows: design/tuning.md, section 5, "Data"."""

import pytest

from specfleet.tuning.windows import Window, Windows, remember


def a_window(depth: int, *, at: float, batch: float = 4.0, steps: float = 200.0, ms: float = 20.0) -> Window:
    return Window(at, depth, batch, batch * (1 + depth), ms / 1000, steps)


def some(*windows: Window) -> Windows:
    kept: Windows = ()
    for window in windows:
        kept = remember(kept, window)
    return kept


def test_a_cell_keeps_eight_windows() -> None:
    windows = some(*(a_window(2, at=float(i)) for i in range(30)))

    assert [window.at for window in windows] == [float(i) for i in range(22, 30)]


def test_the_spans_beside_a_probe_outlive_the_other_windows_of_their_cell() -> None:
    before = [a_window(2, at=15.0 * i) for i in range(10)]
    probe = [a_window(3, at=150.0)]
    after = [a_window(2, at=165.0 + 15.0 * i) for i in range(40)]

    windows = some(*before, *probe, *after)

    kept = [w.at for w in windows if w.depth == 2]
    assert kept[:4] == [120.0, 135.0, 165.0, 180.0]
    assert kept[4:] == [after[i].at for i in range(32, 40)]


def test_a_pool_with_many_cells_keeps_160_windows_and_its_quiet_cells() -> None:
    quiet = a_window(0, at=0.0, batch=100.0)
    busy = [
        a_window(depth, at=float(i), batch=batch)
        for i in range(40)
        for batch in (1.0, 2.0, 4.0, 8.0)
        for depth in (1, 2, 3)
    ]

    windows = some(quiet, *busy)

    assert len(windows) == 160
    assert quiet in windows


def test_windows_older_than_four_hours_are_dropped() -> None:
    windows = some(a_window(0, at=0.0), a_window(2, at=4 * 3600.0 + 1))

    assert [window.depth for window in windows] == [2]


def test_a_window_under_fifty_steps_is_joined_with_the_next() -> None:
    windows = some(a_window(2, at=0.0, steps=20, ms=20.0), a_window(2, at=3.0, steps=60, ms=24.0))

    (window,) = windows
    assert (window.at, window.steps) == (3.0, 80)
    assert window.seconds == pytest.approx(0.023)


def test_a_short_window_is_not_joined_over_a_probe() -> None:
    windows = some(
        a_window(2, at=0.0, steps=20), a_window(3, at=3.0, steps=20), a_window(2, at=6.0, steps=20)
    )

    assert [(w.at, w.depth) for w in windows] == [(0.0, 2), (3.0, 3), (6.0, 2)]
