"""Continuous batching: what one step holds. Prefill and decode together, first come first served. Compiled.

Source: design/simulator.md, section 2.
"""

import numpy as np

from specfleet.simulator.compiled import compiled
from specfleet.simulator.layout import CACHED, PREEMPTIONS, PROMPT, QUEUE, REQUEST_BOUNDS
from specfleet.simulator.state import (
    DECODING,
    HEAD,
    HITS,
    NOW,
    PROMISED,
    QUEUED,
    READ,
    RUNNING,
    TAKEN,
    USED,
    Engine,
    Requests,
    Rules,
)

EXPECTED_OUTPUT = 0.6  # of its real length, what admission counts on


@compiled
def observe(counters: np.ndarray, start: int, bounds: np.ndarray, value: float, times: int) -> None:
    """Count a value in a histogram's block."""
    index = 0
    while index < len(bounds) and value > bounds[index]:
        index += 1
    counters[start + index] += times
    counters[start + len(bounds) + 1] += times * value


@compiled
def take_arrivals(engine: Engine, requests: Requests, incoming: np.ndarray, until: float) -> None:
    """Queue the requests that have arrived. ``incoming`` are sorted by arrival."""
    words = engine.words
    while words[TAKEN] < len(incoming) and requests.arrival[incoming[words[TAKEN]]] <= until:
        slot = (words[HEAD] + words[QUEUED]) % len(engine.queue)
        engine.queue[slot] = incoming[words[TAKEN]]
        words[QUEUED] += 1
        words[TAKEN] += 1


@compiled
def stored(requests: Requests, request: int) -> int:
    """Count the tokens of a request that lie in the KV cache."""
    return int(requests.prompt[request] + requests.generated[request] - requests.prefill[request])


@compiled
def promised(requests: Requests, rules: Rules, request: int) -> int:
    """Count the tokens of KV that admission sets aside for a request."""
    return int(requests.prompt[request] + EXPECTED_OUTPUT * requests.output[request]) + rules.lookahead


@compiled
def make_room(engine: Engine, requests: Requests, rules: Rules, depth: int) -> None:
    """Preempt the youngest requests until the step's new tokens and all lookahead slots fit.

    A preempted request goes to the head of the queue and is computed again from its beginning.
    """
    words = engine.words
    while words[RUNNING] > 1:
        needed = words[USED] + words[DECODING] * (depth + 1) + words[RUNNING] * rules.lookahead
        if needed <= rules.kv_tokens:
            break
        words[RUNNING] -= 1
        request = engine.running[words[RUNNING]]
        words[USED] -= stored(requests, request)
        words[PROMISED] -= promised(requests, rules, request)
        if words[DECODING] > words[RUNNING]:
            words[DECODING] -= 1
            words[READ] -= stored(requests, request)
        requests.prefill[request] = requests.prompt[request] + requests.generated[request]
        requests.preempted[request] += 1
        words[HEAD] = (words[HEAD] - 1) % len(engine.queue)
        engine.queue[words[HEAD]] = request
        words[QUEUED] += 1
        engine.counters[PREEMPTIONS] += 1.0


@compiled
def schedule_prefill(engine: Engine, requests: Requests, rules: Rules) -> int:
    """Give prompts their share of the step, running ones first, then new ones. Returns the tokens."""
    words, left = engine.words, rules.prefill_budget
    for index in range(words[DECODING], words[RUNNING]):
        left -= _chunk(engine, requests, engine.running[index], left)
    while left > 0 and words[QUEUED] > 0 and words[RUNNING] < rules.max_requests:
        request = engine.queue[words[HEAD]]
        promise = promised(requests, rules, request)
        if words[PROMISED] + promise > rules.admit_share * rules.kv_tokens and words[RUNNING] > 0:
            break
        words[HEAD] = (words[HEAD] + 1) % len(engine.queue)
        words[QUEUED] -= 1
        words[PROMISED] += promise
        _admit(engine, requests, request)
        engine.running[words[RUNNING]] = request
        words[RUNNING] += 1
        left -= _chunk(engine, requests, request, left)
    return rules.prefill_budget - left


@compiled
def prefill_ahead(engine: Engine, requests: Requests, rules: Rules) -> int:
    """Foresee the step's prompt tokens: what waits for them and the head of the queue."""
    words, tokens = engine.words, 0
    for index in range(words[DECODING], words[RUNNING]):
        tokens += requests.prefill[engine.running[index]]
    if words[QUEUED] > 0:
        tokens += requests.prompt[engine.queue[words[HEAD]]]
    return int(min(tokens, rules.prefill_budget))


@compiled
def _admit(engine: Engine, requests: Requests, request: int) -> None:
    if not np.isnan(requests.admitted[request]):
        return
    now = engine.clock[NOW]
    requests.admitted[request] = now
    hit = min(int(requests.shared[request] * engine.clock[HITS]), requests.prompt[request] - 1)
    requests.prefill[request] -= hit
    engine.words[USED] += hit
    engine.counters[PROMPT] += requests.prompt[request]
    engine.counters[CACHED] += hit
    observe(engine.counters, QUEUE, REQUEST_BOUNDS, now - requests.arrival[request], 1)


@compiled
def _chunk(engine: Engine, requests: Requests, request: int, left: int) -> int:
    tokens = min(left, requests.prefill[request])
    requests.prefill[request] -= tokens
    engine.words[USED] += tokens
    return int(tokens)
