"""What probes may cost: design/tuning.md, section 8 (0.5 % of an hour's output is 18 s)."""

import pytest

from specfleet.api.schedule import flat
from specfleet.tuning.cost import StepCost
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.exploration import affordable, cost
from specfleet.tuning.memory import Memory, ProbeRun, Spent
from specfleet.tuning.survival import Survival
from specfleet.tuning.windows import Window

# Nothing is accepted, and depth 2 takes a quarter longer than depth 0: it gives 80 % of the tokens.
NOTHING = Survival(reached={1: 1e4, 2: 1e4}, drafted={1: 1e4, 2: 1e4})
WINDOWS = tuple(
    Window(15.0 * i, depth, 1.0, 1.0 + depth, seconds, 500.0)
    for i, (depth, seconds) in enumerate([(0, 0.1), (2, 0.125)] * 8)
)
ESTIMATES = Estimates(NOTHING, StepCost(WINDOWS, 225.0))


def test_a_probe_costs_its_time_by_the_share_that_it_loses() -> None:
    spent = cost(ProbeRun(2, 100.0, flat(0), 1.0), ESTIMATES, 0, 125.0)

    assert spent.seconds == pytest.approx(25 * 0.2, rel=0.05)


def test_a_probe_of_a_better_depth_costs_nothing() -> None:
    assert cost(ProbeRun(0, 100.0, flat(2), 1.0), ESTIMATES, 2, 125.0).seconds == 0.0


@pytest.mark.fault("jundot/omlx#2077")
@pytest.mark.parametrize(("spent", "expected"), [(12.5, True), (13.5, False)])
def test_a_probe_has_to_fit_into_half_a_percent_of_an_hour(spent: float, expected: bool) -> None:
    memory = Memory(batch=1.0, spent=(Spent(0.0, spent),))

    assert affordable(memory, ESTIMATES, 2, 0, 25.0) is expected


def test_a_probe_that_is_expected_to_pay_needs_no_budget() -> None:
    memory = Memory(batch=1.0, spent=(Spent(0.0, 18.0),))

    assert affordable(memory, ESTIMATES, 0, 2, 25.0)
    assert not affordable(memory, ESTIMATES, 2, 0, 25.0)
