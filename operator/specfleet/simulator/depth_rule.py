"""Which depth a step runs at: the engine's table, or a rule that policies are compared by. Compiled.

The table rule is the engines' own, with its hysteresis (decisions, 23). ORACLE and IN_STEP know the truth;
EMA is SGLang's adaptive mode: design/simulator.md, section 7, and reference/engines.md.
"""

import numpy as np

from specfleet.simulator.compiled import compiled
from specfleet.simulator.cost import Cost, amortised_rate, step_seconds
from specfleet.simulator.state import (
    ASKED,
    DECODING,
    EMA,
    NOW,
    ORACLE,
    READ,
    ROW,
    TABLE,
    Engine,
    Rules,
    World,
)

STEPS_INSIDE_BAND = 16

# SGLang's built-in slots with at most 5 steps: from this batch on, these candidates.
_SLOTS = np.array([1, 8, 32, 64])
_CANDIDATES = np.array([[1, 3, 5], [0, 1, 3], [0, 1, 1], [0, 0, 0]])
_COUNTS = np.array([3, 3, 2, 1])
_ALPHA, _INTERVAL, _WARM_UP, _DOWN = 0.2, 5, 10, -0.25
_ZERO_STEPS = 200  # at depth 0 nothing is accepted: after so many batches one interval tries again

# Columns of `Engine.ema`.
_MEAN, _CHOICE, _SEEN, _SINCE, _ZEROS = range(5)


@compiled
def choose_depth(engine: Engine, rules: Rules, world: World, cost: Cost, prefill: float) -> int:
    """Give the depth of the next step; 0 without a proposer or without a decoding request.

    ``prefill``: the step's prompt tokens, for the rule that looks at them.
    """
    batch = engine.words[DECODING]
    if rules.loaded == 0 or batch == 0:
        return 0
    if rules.rule == TABLE:
        return by_table(engine, batch)
    if rules.rule == EMA:
        slot = slot_of(batch)
        return int(min(rules.max_depth, _CANDIDATES[slot, int(engine.ema[slot, _CHOICE])]))
    context = engine.words[READ] / batch
    second = min(int(engine.clock[NOW]), len(world.mean) - 1)
    survival = world.mean[second]
    best, depth = -1.0, 0
    for candidate in range(rules.max_depth + 1):
        if rules.rule == ORACLE:
            rate = amortised_rate(cost, batch, context, candidate, survival, rules.rho, 1.0)
        else:
            tokens = batch * (candidate + 1) + prefill
            accepted = 1.0 + survival[:candidate].sum()
            rate = accepted / step_seconds(cost, batch, tokens, batch * context, candidate, 1.0)
        if rate > best:
            best, depth = rate, candidate
    return depth


@compiled
def by_table(engine: Engine, batch: int) -> int:
    """Look up a row: at once outside 10 % of its border, inside only after 16 steps in a row."""
    words, borders = engine.words, engine.borders
    wanted = 0
    while batch > borders[wanted]:
        wanted += 1
    row = words[ROW]
    if row >= 0 and wanted != row:
        border = borders[wanted] if wanted < row else borders[wanted - 1]
        if abs(batch - border) * 10 <= border and words[ASKED] < STEPS_INSIDE_BAND:
            words[ASKED] += 1
            return int(engine.depths[row])
    words[ROW], words[ASKED] = wanted, 0
    return int(engine.depths[wanted])


@compiled
def slot_of(batch: int) -> int:
    """Find the slot of the adaptive mode that a batch belongs to."""
    slot = 0
    for index in range(len(_SLOTS)):
        if batch >= _SLOTS[index]:
            slot = index
    return slot


@compiled
def count_accepted(engine: Engine, batch: int, accepted: float) -> None:
    """Let the adaptive mode learn the mean number of accepted drafts of one step, and move a candidate."""
    slot = slot_of(batch)
    state, steps = engine.ema[slot], _CANDIDATES[slot]
    choice = int(state[_CHOICE])
    if steps[choice] == 0:
        state[_ZEROS] += 1
        if state[_ZEROS] >= _ZERO_STEPS and _COUNTS[slot] > 1:
            state[_CHOICE], state[_ZEROS], state[_SINCE] = 1, 0, 0
            state[_MEAN] = steps[1] - 0.5
        return
    state[_MEAN] = accepted if state[_SEEN] == 0 else (1 - _ALPHA) * state[_MEAN] + _ALPHA * accepted
    state[_SEEN] += 1
    state[_SINCE] += 1
    if state[_SEEN] < _WARM_UP or state[_SINCE] < _INTERVAL:
        return
    state[_SINCE] = 0
    if choice > 0 and state[_MEAN] <= steps[choice - 1] - 0.5 + _DOWN:
        state[_CHOICE] = choice - 1
    elif choice + 1 < _COUNTS[slot] and state[_MEAN] > steps[choice] - 0.5:
        state[_CHOICE] = choice + 1
