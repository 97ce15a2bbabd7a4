"""The true time of a step: the tuner's form (design/tuning.md, section 5) and the terms that the tuner lacks.

Source: design/simulator.md, section 1.
"""

import math
from typing import NamedTuple

import numpy as np

from specfleet.simulator.compiled import compiled

LARGEST_GRAPH = 512


class Cost(NamedTuple):
    """Seconds; ``token`` per token of a step, ``kv`` per cached token read, ``draft_request`` per request
    and depth. ``norm`` is the p of the roofline blend. ``tax``: what a loaded proposer adds to a step at
    depth 0; ``zero_draft`` 1.0: the proposer runs at depth 0 too. ``noise``: relative sd of a step.
    ``graphs`` 1.0: token counts are padded to captured CUDA graphs. ``slower`` multiplies every step.

    The defaults are those of a 70B model in BF16 on 4 x H100.
    """

    memory: float = 14.4e-3
    overhead: float = 3.7e-3
    token: float = 59.5e-6
    kv: float = 4.77e-8
    draft: float = 0.6e-3
    draft_depth: float = 0.9e-3
    draft_request: float = 1e-6
    norm: float = 4.0
    tax: float = 0.08
    zero_draft: float = 0.0
    noise: float = 0.02
    graphs: float = 1.0
    slower: float = 1.0


@compiled
def padded(tokens: float) -> float:
    """Round a step's tokens up to the next captured CUDA graph; above the largest nothing is captured."""
    if tokens > LARGEST_GRAPH:
        return tokens
    grain = 8.0
    if tokens > 256:
        grain = 32.0
    elif tokens > 64:
        grain = 16.0
    return math.ceil(tokens / grain) * grain


@compiled
def step_seconds(
    cost: Cost, batch: float, tokens: float, kv_tokens: float, depth: float, loaded: float
) -> float:
    """Give the mean time of a step of ``tokens``, drafts and prefill among them.

    ``batch`` requests decode at ``depth`` and read ``kv_tokens``; ``loaded`` 1.0: a proposer is in memory.
    """
    size = padded(tokens) if cost.graphs > 0.0 else tokens
    blend: float = (cost.memory**cost.norm + (cost.token * size) ** cost.norm) ** (1.0 / cost.norm)
    if cost.graphs > 0.0 and size > LARGEST_GRAPH:
        blend *= 1.04
    seconds = cost.overhead + blend + cost.kv * kv_tokens
    if depth > 0.0:
        seconds += cost.draft + depth * cost.draft_depth + cost.draft_request * batch * depth
    elif loaded > 0.0 and batch > 0.0:
        seconds = seconds * (1.0 + cost.tax) + cost.zero_draft * cost.draft
    return seconds * cost.slower


@compiled
def amortised_rate(
    cost: Cost, batch: float, context: float, depth: int, survival: np.ndarray, rho: float, loaded: float
) -> float:
    """Give J: tokens per second of one request at a depth, prefill spread over the steps.

    ``context`` is the mean number of cached tokens of a request, ``survival`` S_1, S_2, ..., ``rho`` prompt
    tokens per output token. Source: design/simulator.md, section 7.
    """
    accepted = 1.0
    for position in range(depth):
        accepted += float(survival[position])
    tokens = batch * (depth + 1) + batch * accepted * rho
    return accepted / step_seconds(cost, batch, tokens, batch * context, depth, loaded)
