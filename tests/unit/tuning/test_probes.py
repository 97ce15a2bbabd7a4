"""Which depth is tried next (design/tuning.md, section 8, and decision 176)."""

import pytest
from tests.unit.tuning.bench import some_settings

from specfleet.api.schedule import flat
from specfleet.tuning.bins import bins
from specfleet.tuning.cost import StepCost
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.memory import Memory
from specfleet.tuning.optimise import Situation
from specfleet.tuning.probes import target
from specfleet.tuning.survival import Survival
from specfleet.tuning.windows import Window

NOW, BATCH = 1000.0, 8.0
# Half of all drafts are accepted: E_3 = 1.875, E_5 = 1.97.
HALF = Survival(
    reached=dict.fromkeys(range(6), 8000.0),
    drafted=dict.fromkeys(range(1, 6), 8000.0),
    accepted={position: 8000.0 * 0.5**position for position in range(1, 6)},
)


@pytest.mark.parametrize(
    ("at_three", "tried"),
    [
        pytest.param(0.0381, 2, id="as-good-so-on-to-the-next"),
        pytest.param(0.0440, None, id="worse-so-no-further"),
    ],
)
def test_under_a_depth_that_is_as_good_the_next_shallower_one_is_tried(
    at_three: float, tried: int | None
) -> None:
    # Step times of depth 5, of 3 (.0381: as many tokens a second), and of a depth 0 that nobody wants.
    windows = tuple(
        Window(NOW - age, depth, BATCH, BATCH * (1 + depth), seconds, 200.0)
        for age in (75.0, 45.0, 15.0)
        for depth, seconds in ((5, 0.0400), (3, at_three), (0, 0.0300))
    )
    estimates = Estimates(HALF, StepCost(windows, NOW))
    settings = some_settings()
    situation = Situation(flat(5), bins(settings.max_requests), {}, settings.candidates, now=NOW)

    found = target(Memory(batch=BATCH), estimates, situation, settings, NOW)

    assert (found.depth if found else None) == tried
