"""The objective that depths are compared by (design/tuning.md, section 6)."""

import pytest

from specfleet.tuning.cost import StepCost, Window
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.survival import Survival

# Of 1,000 decode steps of a sequence 20 drafted one token, and 10 of these were accepted: E_1 = 1.01.
FREE_TEXT = Survival(reached={0: 1000.0, 1: 1000.0}, drafted={1: 20.0}, accepted={1: 10.0})


def windows(seconds_by_depth: dict[int, float]) -> tuple[Window, ...]:
    return tuple(
        Window(0.0, depth, 1.0, 1.02 if depth else 1.0, seconds, 200.0)
        for depth, seconds in seconds_by_depth.items()
    )


def test_a_busy_spell_at_depth_0_cannot_make_drafts_look_better_than_the_tokens_they_bring() -> None:
    estimates = Estimates(FREE_TEXT, StepCost(windows({0: 0.140, 1: 0.127}), 0.0))

    gain = estimates.rate(1.0, 1) / estimates.rate(1.0, 0)

    assert gain == pytest.approx(1.01, abs=0.002)


def test_a_dear_depth_counts_as_dear() -> None:
    estimates = Estimates(FREE_TEXT, StepCost(windows({0: 0.100, 1: 0.127}), 0.0))

    gain = estimates.rate(1.0, 1) / estimates.rate(1.0, 0)

    assert gain == pytest.approx(1.01 / 1.27, rel=0.05)
