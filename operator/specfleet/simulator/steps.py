"""The step loop of one engine: schedule, spend the time, hand out tokens, count. Compiled."""

import numpy as np

from specfleet.simulator.chance import normal
from specfleet.simulator.compiled import compiled
from specfleet.simulator.cost import Cost, step_seconds
from specfleet.simulator.depth_rule import choose_depth, count_accepted
from specfleet.simulator.layout import (
    GENERATED,
    ITERATION,
    ITERATION_BOUNDS,
    PROPOSER_SECONDS,
    SEQUENCE_STEPS,
    STEP_SECONDS,
    STEPS,
    VERIFY_SECONDS,
)
from specfleet.simulator.scheduler import make_room, observe, prefill_ahead, schedule_prefill, take_arrivals
from specfleet.simulator.state import (
    ADMITTED,
    BATCH,
    CONTEXT,
    DECODING,
    EMA,
    IN_DEPTH,
    IN_STEP,
    KV_USED,
    NOW,
    QUEUED,
    READ,
    RUNNING,
    SAMPLE,
    TAKEN,
    UP,
    USED,
    WAITING,
    Engine,
    Requests,
    Rules,
    World,
)
from specfleet.simulator.tokens import decode_batch, first_tokens, mark_idled


@compiled
def advance(
    engine: Engine,
    requests: Requests,
    incoming: np.ndarray,
    rules: Rules,
    world: World,
    cost: Cost,
    until: float,
) -> None:
    """Run steps until the engine's clock has reached ``until``. ``incoming`` arrive before that, sorted."""
    words, clock = engine.words, engine.clock
    words[TAKEN] = 0
    while clock[NOW] < until:
        take_arrivals(engine, requests, incoming, clock[NOW])
        if words[RUNNING] + words[QUEUED] > 0:
            _step(engine, requests, rules, world, cost)
            continue
        upcoming = until
        if words[TAKEN] < len(incoming):
            upcoming = min(until, requests.arrival[incoming[words[TAKEN]]])
        _sample(engine, upcoming, 0)
        clock[NOW] = upcoming
    take_arrivals(engine, requests, incoming, until)


@compiled
def _step(engine: Engine, requests: Requests, rules: Rules, world: World, cost: Cost) -> None:
    words, clock = engine.words, engine.clock
    ahead = prefill_ahead(engine, requests, rules) if rules.rule == IN_STEP else 0
    depth = choose_depth(engine, rules, world, cost, float(ahead))
    make_room(engine, requests, rules, depth)
    prefill = schedule_prefill(engine, requests, rules)
    batch = words[DECODING]
    # The mean of a variable drafter: what it drafts in this very step is drawn with the acceptance.
    drafted = (1.0 - rules.idle_share) * (depth if rules.variable == 0 else 0.5 * (1 + depth))
    tokens = batch * (1.0 + (drafted if depth > 0 else 0.0)) + prefill
    seconds = step_seconds(cost, batch, tokens, words[READ], depth, rules.loaded)
    seconds *= max(0.5, 1.0 + cost.noise * normal(engine.random))
    began = clock[NOW]
    _sample(engine, began + seconds, depth)
    clock[NOW] += seconds
    if batch > 0:
        _count_step(engine, cost, depth, batch, seconds)
    if depth == 0 and rules.loaded == 1 and rules.resume < 1.0:
        mark_idled(engine, requests)
    produced = decode_batch(engine, requests, rules, world, depth, began)
    if rules.rule == EMA and batch > 0:
        count_accepted(engine, batch, produced / batch - 1.0)
    produced += first_tokens(engine, requests, rules)
    engine.counters[GENERATED] += produced
    observe(engine.counters, ITERATION, ITERATION_BOUNDS, float(prefill + produced), 1)


@compiled
def _count_step(engine: Engine, cost: Cost, depth: int, batch: int, seconds: float) -> None:
    counters = engine.counters
    draft = cost.draft + depth * cost.draft_depth if depth > 0 else 0.0
    counters[STEPS + depth] += 1.0
    counters[STEP_SECONDS + depth] += seconds
    counters[SEQUENCE_STEPS + depth] += batch
    counters[PROPOSER_SECONDS] += draft
    counters[VERIFY_SECONDS] += seconds - draft


@compiled
def _sample(engine: Engine, until: float, depth: int) -> None:
    """Write a row of the trace for every second that the engine's time passes."""
    clock, words, trace = engine.clock, engine.words, engine.trace
    while clock[SAMPLE] <= until and clock[SAMPLE] < len(trace):
        row = trace[int(clock[SAMPLE])]
        row[BATCH], row[IN_DEPTH], row[WAITING] = words[DECODING], depth, words[QUEUED]
        row[ADMITTED], row[CONTEXT], row[KV_USED] = words[RUNNING], words[READ], words[USED]
        row[UP] = 1.0
        clock[SAMPLE] += 1.0
