"""Step cost: a fitted model under measured windows (design/tuning.md, section 5)."""

import pytest

from specfleet.tuning.cost import Point, StepCost
from specfleet.tuning.windows import Window, Windows, remember


def true_seconds(batch: float, tokens: float, depth: int) -> float:
    """A knee at 24 tokens, 2 ms for drafting."""
    return ((0.02**4 + (0.02 / 24 * tokens) ** 4) ** 0.25) + 0.0004 * batch + (0.002 if depth else 0.0)


def a_window(batch: float, depth: int, *, at: float = 0.0, factor: float = 1.0) -> Window:
    tokens = batch * (1 + depth)
    return Window(at, depth, batch, tokens, factor * true_seconds(batch, tokens, depth), 200.0)


def some_windows(*cells: tuple[float, int]) -> Windows:
    windows: Windows = ()
    for batch, depth in cells:
        windows = remember(windows, a_window(batch, depth))
    return windows


def test_a_measured_cell_is_given_back() -> None:
    cost = StepCost(some_windows((1, 0), (1, 2), (1, 5)), 0.0)

    assert cost.seconds(1, 3, 2) == pytest.approx(true_seconds(1, 3, 2), rel=0.02)


def test_one_notch_beside_measured_cells_is_within_ten_percent() -> None:
    cells = [(b, d) for b in (1, 4, 16) for d in (0, 2, 5)]
    cost = StepCost(some_windows(*cells), 0.0)

    for batch in (1, 4, 16):
        for depth in (1, 3):
            tokens = batch * (1 + depth)
            assert cost.seconds(batch, tokens, depth) == pytest.approx(
                true_seconds(batch, tokens, depth), rel=0.1
            )


@pytest.mark.fault("vllm#44336")
def test_fewer_drafts_at_the_same_depth_cost_less_beyond_the_knee() -> None:
    cost = StepCost(some_windows((16, 0), (16, 5), (1, 0), (1, 5)), 0.0)

    assert cost.seconds(16, 20, 5) < 0.6 * cost.seconds(16, 96, 5)


def test_a_depth_that_hardly_drafts_costs_hardly_more_than_depth_0() -> None:
    """Steps of SmolLM2 on two cores in repetitive text, and then free text of which 6 % is drafted.

    There 40 ms at depth 0 and 40 to 41 ms at depth 5 were measured, in turns: docs/decisions.md, 70.
    """
    seconds = {0: 0.0400, 2: 0.0415, 3: 0.0440, 5: 0.0520}
    drafts = {0: 0.0, 2: 1.7, 3: 2.4, 5: 3.8}
    windows: Windows = ()
    for at, depth in enumerate((2, 2, 3, 3, 2, 3, 3, 5, 5, 3, 5, 5, 0, 0, 5, 5)):
        windows = remember(windows, Window(10.0 * at, depth, 1.0, 1 + drafts[depth], seconds[depth], 200.0))

    cost = StepCost(windows, 160.0)

    assert cost.seconds(1, 4.8, 5) == pytest.approx(1.30 * cost.seconds(1, 1, 0), rel=0.03)
    assert cost.seconds(1, 1.3, 5) == pytest.approx(cost.seconds(1, 1, 0), rel=0.04)
    assert 0.02 < cost.uncertainty(Point(1, 1.3, 5), Point(1, 1, 0)) < 0.08


def test_a_machine_that_slows_down_slows_all_depths_and_changes_no_ratio() -> None:
    windows = some_windows((1, 0), (1, 5))
    before = StepCost(windows, 0.0)
    ratio = before.seconds(1, 6, 5) / before.seconds(1, 1, 0)

    for i in range(1, 20):
        windows = remember(windows, a_window(1, 5, at=15.0 * i, factor=1.3))

    after = StepCost(windows, 300.0)
    assert after.seconds(1, 6, 5) == pytest.approx(1.3 * true_seconds(1, 6, 5), rel=0.03)
    assert after.seconds(1, 6, 5) / after.seconds(1, 1, 0) == pytest.approx(ratio, rel=0.05)


def test_a_distant_batch_is_no_support() -> None:
    cost = StepCost(some_windows((1, 0)), 0.0)

    assert cost.steps_near(1, 0) == 200
    assert cost.steps_near(16, 0) == 0


def test_without_any_window_there_is_no_cost() -> None:
    with pytest.raises(ValueError, match="no step has been measured"):
        StepCost((), 0.0).seconds(1, 1, 0)
