"""The simulated engine changes rows as the real engines do."""

import numpy as np
import pytest

from specfleet.api.schedule import Row
from specfleet.simulator.depth_rule import by_table
from specfleet.simulator.state import Engine, Rules, new_engine, new_trace, set_table
from specfleet_serving.schedule import DepthChooser
from specfleet_serving.schedule import Row as EngineRow

TABLE = (Row(4, 5), Row(20, 3), Row(64, 1), Row(None, 0))


def an_engine() -> Engine:
    rules = Rules(256, 2048, 1000, 0.97, 6, 5, 1, 0, 0.0, 0.0, 0, 1.0, 1)
    return new_engine(rules, 10, new_trace(10), 1, 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_load_that_wanders_over_borders_gets_the_depths_of_the_engines_own_chooser(seed: int) -> None:
    random = np.random.default_rng(seed)
    loads = np.clip(np.cumsum(random.integers(-3, 4, 3000)) + 20, 1, 200)
    engine, chooser = an_engine(), DepthChooser(tuple(EngineRow(r.max_requests, r.depth) for r in TABLE))
    set_table(engine, TABLE)

    assert [by_table(engine, int(n)) for n in loads] == [chooser.choose(int(n)) for n in loads]


def test_more_rows_than_an_engine_holds_are_refused() -> None:
    table = (*(Row(n, n % 5) for n in range(1, 40)), Row(None, 0))

    with pytest.raises(ValueError, match="32 rows"):
        set_table(an_engine(), table)
