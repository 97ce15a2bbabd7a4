"""The policies that are compared, made for a scenario."""

from collections.abc import Callable, Mapping

from specfleet.api.schedule import flat
from specfleet.simulator.policy import Policy
from specfleet.simulator.scenario import Scenario
from specfleet.simulator.state import EMA, IN_STEP, ORACLE
from specfleet.tuning.decide import decide


def _static(depth: int) -> Callable[[Scenario], Policy]:
    return lambda _: Policy(f"static-{depth}", flat(depth))


POLICIES: Mapping[str, Callable[[Scenario], Policy]] = {
    "hard-off": lambda _: Policy("hard-off", flat(0), loaded=False),
    **{f"static-{depth}": _static(depth) for depth in (1, 2, 3, 5)},
    "ema": lambda s: Policy("ema", flat(s.initial_depth), rule=EMA),
    "in-step": lambda s: Policy("in-step", flat(s.initial_depth), rule=IN_STEP),
    "oracle": lambda s: Policy("oracle", flat(s.initial_depth), rule=ORACLE),
    "ours": lambda s: Policy("ours", flat(s.initial_depth), lambda: decide),
}
