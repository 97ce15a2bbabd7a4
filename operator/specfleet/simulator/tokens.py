"""What requests get from a step: accepted drafts and the target's own token, with all counts. Compiled."""

import numpy as np

from specfleet.simulator.chance import uniform
from specfleet.simulator.compiled import compiled
from specfleet.simulator.layout import (
    ACCEPTED,
    ACCEPTED_AT,
    DECODE,
    DRAFT_TOKENS,
    DRAFTED_AT,
    DRAFTS,
    E2E,
    FINE_TOKEN_BOUNDS,
    FINISHED,
    FIRST_TOKEN,
    FIRST_TOKEN_BOUNDS,
    GAP,
    PER_OUTPUT_TOKEN,
    PREFILL,
    REQUEST_BOUNDS,
    TOKEN_BOUNDS,
)
from specfleet.simulator.scheduler import observe, promised
from specfleet.simulator.state import (
    DECODING,
    NOW,
    PROMISED,
    READ,
    RUNNING,
    USED,
    Engine,
    Requests,
    Rules,
    World,
)

MOST_SURVIVAL = 0.985


@compiled
def drafted_by(random: np.ndarray, idle_share: float, variable: int, depth: int) -> int:
    """Say how many tokens the proposer drafts for one request in one step."""
    if idle_share > 0.0 and uniform(random) < idle_share:
        return 0
    return depth if variable == 0 else 1 + int(uniform(random) * depth)


@compiled
def decode_batch(
    engine: Engine, requests: Requests, rules: Rules, world: World, depth: int, step_began: float
) -> int:
    """Verify the drafts of all decoding requests; those that end leave the batch. Returns the tokens."""
    words, now = engine.words, engine.clock[NOW]
    second = min(int(now), len(world.factor) - 1)
    engine.accepted[:] = 0
    kept, produced, steady, drafts = 0, 0, 0, 0
    for index in range(words[DECODING]):
        request = engine.running[index]
        drafted, accepted = 0, 0
        if depth > 0:
            drafted = drafted_by(engine.random, rules.idle_share, rules.variable, depth)
            profile, factor = world.profiles[requests.kind[request]], world.factor[second]
            common = rules.resume if requests.idled[request] == 1 else 1.0
            accepted = accepted_of(engine.random, profile, factor, requests.lift[request], common, drafted)
        left = requests.output[request] - requests.generated[request]
        tokens = min(accepted + 1, left)
        if rules.trims == 1:
            drafted, accepted = min(drafted, left), min(accepted, left)
        engine.accepted[accepted] += 1
        if drafted == depth:
            drafts += 1
        else:
            _count_drafts(engine, drafted, 1)
        if requests.last[request] == step_began:
            steady += 1
        else:
            observe(engine.counters, GAP, TOKEN_BOUNDS, now - requests.last[request], 1)
        produced += tokens
        requests.generated[request] += tokens
        requests.last[request] = now
        if tokens == left:
            _leave(engine, requests, rules, request)
            continue
        engine.running[kept] = request
        kept += 1
    observe(engine.counters, GAP, TOKEN_BOUNDS, now - step_began, steady)
    _count_drafts(engine, depth, drafts)
    _settle(engine, kept, produced)
    return produced


@compiled
def _settle(engine: Engine, kept: int, produced: int) -> None:
    _count_accepted(engine)
    engine.words[READ] += produced
    engine.words[USED] += produced
    _close_gap(engine, kept)


@compiled
def mark_idled(engine: Engine, requests: Requests) -> None:
    """Remember which requests were alive in a step at depth 0: the proposer did not follow them."""
    for index in range(engine.words[DECODING]):
        requests.idled[engine.running[index]] = 1


@compiled
def first_tokens(engine: Engine, requests: Requests, rules: Rules) -> int:
    """Let requests whose prompt is done join the decoding ones, with a token. Returns the tokens."""
    words, counters, now = engine.words, engine.counters, engine.clock[NOW]
    produced, kept, started = 0, words[DECODING], words[DECODING]
    while started < words[RUNNING] and requests.prefill[engine.running[started]] == 0:
        request = engine.running[started]
        started += 1
        requests.generated[request] += 1
        produced += 1
        words[USED] += 1
        if np.isnan(requests.first[request]):
            requests.first[request] = now
            observe(counters, FIRST_TOKEN, FIRST_TOKEN_BOUNDS, now - requests.arrival[request], 1)
            observe(counters, PREFILL, REQUEST_BOUNDS, now - requests.admitted[request], 1)
        else:
            observe(counters, GAP, TOKEN_BOUNDS, now - requests.last[request], 1)
        requests.last[request] = now
        if requests.generated[request] < requests.output[request]:
            engine.running[kept] = request
            words[READ] += requests.prompt[request] + requests.generated[request]
            kept += 1
        else:
            _finish(engine, requests, rules, request)
    words[DECODING] = started
    _close_gap(engine, kept)
    return produced


@compiled
def _close_gap(engine: Engine, kept: int) -> None:
    """Keep the first ``kept`` of the decoding requests; the others move up behind them."""
    words = engine.words
    gap = words[DECODING] - kept
    for index in range(words[DECODING], words[RUNNING]):
        engine.running[index - gap] = engine.running[index]
    words[DECODING] = kept
    words[RUNNING] -= gap


# Small arguments: this is called for every request in every step, and bundles are passed by value.
@compiled
def accepted_of(
    random: np.ndarray, profile: np.ndarray, factor: np.ndarray, lift: float, common: float, drafted: int
) -> int:
    """Count accepted drafts: one draw against S_1 >= S_2 >= ... has the right share at every position."""
    draw, accepted = uniform(random), 0
    while accepted < drafted:
        if draw >= min(MOST_SURVIVAL, profile[accepted] * lift) * factor[accepted] * common:
            break
        accepted += 1
    return accepted


@compiled
def _count_drafts(engine: Engine, drafted: int, times: int) -> None:
    if drafted == 0:
        return
    counters = engine.counters
    counters[DRAFTS] += times
    counters[DRAFT_TOKENS] += times * drafted
    for position in range(drafted):
        counters[DRAFTED_AT + position] += times


@compiled
def _count_accepted(engine: Engine) -> None:
    """Add up the step's accepted tokens: whoever got three of them got the first two as well."""
    at_least = 0
    for position in range(len(engine.accepted) - 1, 0, -1):
        at_least += engine.accepted[position]
        engine.counters[ACCEPTED_AT + position - 1] += at_least
        engine.counters[ACCEPTED] += at_least


@compiled
def _leave(engine: Engine, requests: Requests, rules: Rules, request: int) -> None:
    engine.words[READ] -= requests.prompt[request] + requests.generated[request]
    _finish(engine, requests, rules, request)


@compiled
def _finish(engine: Engine, requests: Requests, rules: Rules, request: int) -> None:
    words, counters, now = engine.words, engine.counters, engine.clock[NOW]
    requests.finished[request] = now
    words[USED] -= requests.prompt[request] + requests.generated[request]
    words[PROMISED] -= promised(requests, rules, request)
    counters[FINISHED + requests.outcome[request]] += 1.0
    spent = now - requests.first[request]
    others = requests.generated[request] - 1
    observe(counters, E2E, REQUEST_BOUNDS, now - requests.arrival[request], 1)
    observe(counters, DECODE, REQUEST_BOUNDS, spent, 1)
    observe(counters, PER_OUTPUT_TOKEN, FINE_TOKEN_BOUNDS, spent / others if others > 0 else 0.0, 1)
