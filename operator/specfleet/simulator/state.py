"""What the step loop reads and writes: arrays, bundled so that compiled code can take them by name."""

from typing import NamedTuple

import numpy as np

from specfleet.api.schedule import Table
from specfleet.simulator.layout import COUNTERS, DEPTHS, POSITIONS

# Rules by which an engine picks its depth.
TABLE, ORACLE, IN_STEP, EMA = range(4)

# Indices into `Engine.words`.
# The first DECODING of the RUNNING requests decode, the others wait for prompt tokens, oldest first.
# READ: cached tokens of the decoding ones; USED: of all; PROMISED: what admission counts on.
RUNNING, DECODING, READ, USED, PROMISED, HEAD, QUEUED, ROW, ASKED, TAKEN = range(10)
# Indices into `Engine.clock`: now, the next sample of the trace, the warm share of prefix hits.
NOW, SAMPLE, HITS = range(3)
# Columns of `Engine.trace`, one row per second.
BATCH, IN_DEPTH, WAITING, ADMITTED, CONTEXT, KV_USED, UP = range(7)

MOST_ROWS = 32
EMA_SLOTS = 4


class Requests(NamedTuple):
    """One row per request of a run, shared by all pods. Times in seconds of the run; NaN: not yet.

    ``shared``: prompt tokens that a warm prefix cache holds. ``lift``: factor on the request's survival.
    ``home``: the pod that serves it. ``idled``: it was alive while its engine ran at depth 0.
    """

    arrival: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    shared: np.ndarray
    kind: np.ndarray
    lift: np.ndarray
    outcome: np.ndarray
    home: np.ndarray
    prefill: np.ndarray
    generated: np.ndarray
    idled: np.ndarray
    preempted: np.ndarray
    admitted: np.ndarray
    first: np.ndarray
    last: np.ndarray
    finished: np.ndarray


class Engine(NamedTuple):
    """One engine: its batch, its queue, its counters and its clock.

    ``accepted``: how many requests got 0, 1, 2, ... of their drafts in the last step.
    """

    running: np.ndarray
    queue: np.ndarray
    words: np.ndarray
    clock: np.ndarray
    counters: np.ndarray
    borders: np.ndarray
    depths: np.ndarray
    ema: np.ndarray
    accepted: np.ndarray
    random: np.ndarray
    trace: np.ndarray


class Rules(NamedTuple):
    """How an engine schedules. Tokens; ``admit_share`` of KV may be promised, ``lookahead`` slots a request.

    ``rule`` picks the depth; ``rho`` is what the oracle knows of prefill. ``idle_share`` of the steps of a
    request propose nothing (n-gram drafters), ``variable`` 1: the others between 1 and the depth.
    ``resume``: factor on survival of requests that were alive at depth 0. ``trims`` 1: drafts past the
    end of a request are not counted (built-in engine), 0: they are (vLLM).
    """

    max_requests: int
    prefill_budget: int
    kv_tokens: int
    admit_share: float
    lookahead: int
    max_depth: int
    loaded: int
    rule: int
    rho: float
    idle_share: float
    variable: int
    resume: float
    trims: int


class World(NamedTuple):
    """What the traffic is like: survival by kind of request, its factor and its mean by second."""

    profiles: np.ndarray
    factor: np.ndarray
    mean: np.ndarray


def new_trace(seconds: int) -> np.ndarray:
    """Make the rows that an engine's trace goes to; those of seconds in which it is down stay NaN."""
    return np.full((seconds, 7), np.nan, np.float32)


def new_engine(rules: Rules, requests: int, trace: np.ndarray, seed: int, start: float) -> Engine:
    """Make an idle engine whose clock stands at ``start``, for a run of that many ``requests``."""
    engine = Engine(
        running=np.zeros(rules.max_requests, np.int32),
        queue=np.zeros(requests + rules.max_requests + 1, np.int32),
        words=np.zeros(10, np.int64),
        clock=np.array([start, np.ceil(start), 1.0]),
        counters=np.zeros(COUNTERS),
        borders=np.zeros(MOST_ROWS, np.int64),
        depths=np.zeros(MOST_ROWS, np.int64),
        ema=np.zeros((EMA_SLOTS, 5)),
        accepted=np.zeros(DEPTHS, np.int64),
        random=np.array([seed], np.uint64),
        trace=trace,
    )
    engine.words[ROW] = -1
    return engine


def set_table(engine: Engine, table: Table) -> None:
    """Put a table in force, between two steps. Raises ValueError for more rows than can be held."""
    if len(table) > MOST_ROWS or max(row.depth for row in table) > POSITIONS:
        raise ValueError(f"a simulated engine takes up to {MOST_ROWS} rows and depth {POSITIONS}")
    for index, row in enumerate(table):
        engine.borders[index] = np.iinfo(np.int64).max if row.max_requests is None else row.max_requests
        engine.depths[index] = row.depth
    engine.words[ROW], engine.words[ASKED] = -1, 0
