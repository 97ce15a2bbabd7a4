"""Tables that somebody profiled offline: with the right figures, or with those of other prompts or hardware.

Source: design/simulator.md, section 7.
"""

from dataclasses import replace

import numpy as np

from specfleet.api.schedule import Row, Table
from specfleet.simulator.acceptance import CODE, mean_survivals
from specfleet.simulator.cost import Cost, amortised_rate
from specfleet.simulator.scenario import Scenario
from specfleet.simulator.traffic import draw_lengths
from specfleet.tuning.bins import bins

FASTER_TOKEN, FASTER_MEMORY = 0.45, 0.9
_SAMPLE = 20_000


def correct_table(scenario: Scenario) -> Table:
    """Profile the scenario's own hardware and its usual mix of prompts."""
    return profiled(scenario, scenario.cost, _usual_survival(scenario))


def table_of_code_prompts(scenario: Scenario) -> Table:
    """Profile with prompts of code only, whose drafts are accepted more often."""
    code = replace(scenario.acceptance, profiles=(CODE,), mix=(1.0,))
    return profiled(scenario, scenario.cost, mean_survivals(code)[0])


def table_of_a_faster_gpu(scenario: Scenario) -> Table:
    """Profile on a GPU that computes a token in 45 % and reads the weights in 90 % of the time."""
    cost = scenario.cost
    faster = cost._replace(token=FASTER_TOKEN * cost.token, memory=FASTER_MEMORY * cost.memory)
    return profiled(scenario, faster, _usual_survival(scenario))


def profiled(scenario: Scenario, cost: Cost, survival: np.ndarray) -> Table:
    """Give the depth of the largest prefill-amortised J in every bin; the shallower one of equals."""
    prompt, output = draw_lengths(scenario.traffic, _SAMPLE, np.random.default_rng(0))
    rho = float(prompt.sum() / output.sum())
    # Each request counts by the time that it decodes.
    context = float(np.average(prompt + output / 2, weights=output))
    depths = [
        int(
            np.argmax(
                [
                    amortised_rate(cost, one.middle, context, depth, survival, rho, 1.0)
                    for depth in range(scenario.max_depth + 1)
                ]
            )
        )
        for one in bins(scenario.limits.max_requests)
    ]
    rows: list[Row] = []
    for one, depth, deeper in zip(
        bins(scenario.limits.max_requests), depths, [*depths[1:], None], strict=True
    ):
        if depth != deeper:
            rows.append(Row(one.last if deeper is not None else None, depth))
    return tuple(rows)


def _usual_survival(scenario: Scenario) -> np.ndarray:
    survivals = mean_survivals(scenario.acceptance)
    steps = np.array(scenario.acceptance.mix) / (1.0 + survivals[:, 0] + survivals[:, 1])
    return np.asarray(steps @ survivals / steps.sum())
