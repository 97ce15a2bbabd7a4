"""What a pod completes without speculation when it is saturated: the unit that traffic is given in.

Source: design/simulator.md, section 4.
"""

from functools import lru_cache

import numpy as np

from specfleet.api.schedule import flat
from specfleet.simulator.cost import Cost
from specfleet.simulator.scenario import Limits, Scenario
from specfleet.simulator.state import TABLE, Rules, World, new_engine, set_table
from specfleet.simulator.steps import advance
from specfleet.simulator.traffic import Traffic, draw_lengths, new_requests

WARM_UP_SECONDS, MEASURED_SECONDS = 300.0, 600.0
_FEW = 512


def hard_off_capacity(scenario: Scenario) -> float:
    """Measure completed requests per second of one pod under a queue that never empties."""
    traffic = scenario.traffic
    lengths = Traffic(
        long_share=traffic.long_share, prompt_log=traffic.prompt_log, output_log=traffic.output_log
    )
    return _capacity(scenario.cost, scenario.limits, lengths) * scenario.limits.ranks


@lru_cache(maxsize=128)
def _capacity(cost: Cost, limits: Limits, lengths: Traffic) -> float:
    rules = Rules(
        max_requests=limits.max_requests,
        prefill_budget=limits.prefill_budget,
        kv_tokens=limits.kv_tokens,
        admit_share=limits.admit_share,
        lookahead=1,
        max_depth=0,
        loaded=0,
        rule=TABLE,
        rho=0.0,
        idle_share=0.0,
        variable=0,
        resume=1.0,
        trims=1,
    )
    world = World(np.zeros((1, 8)), np.ones((1, 8)), np.zeros((1, 8)))
    count = 4 * _FEW
    # As many requests as are needed to keep the queue standing to the end.
    while True:
        prompt, output = draw_lengths(lengths, count, np.random.default_rng(0))
        requests = new_requests(np.zeros(count), prompt, output)
        engine = new_engine(rules, count, np.zeros((1, 7), np.float32), 0, 0.0)
        set_table(engine, flat(0))
        until = WARM_UP_SECONDS + MEASURED_SECONDS
        advance(engine, requests, np.arange(count, dtype=np.int32), rules, world, cost, until)
        if np.isnan(requests.admitted).any():
            done = requests.finished
            return float(((done > WARM_UP_SECONDS) & (done <= until)).sum() / MEASURED_SECONDS)
        count *= 2
