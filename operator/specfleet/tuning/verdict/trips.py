"""Fast trips: what ends a canary without a test. Source: design/tuning.md, section 10.2."""

import math
from collections.abc import Sequence
from itertools import pairwise

from specfleet.tuning.verdict.blocks import QUEUE, Block

LONGEST = 6  # blocks that the trips look back on
PREEMPTIONS_PER_SECOND = 0.1
PREEMPTION_MINUTES = 2
TOKEN_TIME_RATIO = 1.5
TOKEN_TIME_BLOCKS = 3
ATTAINMENT_DROP = 0.20
# One minute of 20 requests misses by 20 points by chance alone, so five are pooled, without a queue: equal
# slices near saturation, each with a queue of its own, differ by 90. It is held against their dispersion too.
ATTAINMENT_BLOCKS = 5
ATTAINMENT_REQUESTS = 100.0
ATTAINMENT_DEVIATIONS = 4.0
QUEUE_MINUTES = 5


def trip(
    recent: Sequence[Block], preemptions_factor: float, out_of_memory_allowed: int, dispersion: float
) -> str | None:
    """Give the reason to roll back at once, from the last minutes, oldest first; None: there is none.

    ``dispersion``: by how much late first tokens of equal slices vary more than coin flips.
    """
    return (
        _out_of_memory(recent, out_of_memory_allowed)
        or _preemptions(recent[-PREEMPTION_MINUTES:], preemptions_factor)
        or _token_time(recent[-TOKEN_TIME_BLOCKS:])
        or _attainment(recent[-ATTAINMENT_BLOCKS:], dispersion)
        or _queue(recent[-QUEUE_MINUTES - 1 :])
    )


def _out_of_memory(recent: Sequence[Block], allowed: int) -> str | None:
    killed = sum(block.canary.out_of_memory for block in recent)
    if killed > allowed and not any(block.reference.out_of_memory for block in recent):
        return f"{killed} containers of the canary ran out of memory, none of the reference"
    return None


def _preemptions(recent: Sequence[Block], factor: float) -> str | None:
    worst = [
        (block.canary.preemptions_per_second, block.reference.preemptions_per_second) for block in recent
    ]
    if len(worst) == PREEMPTION_MINUTES and all(
        canary > PREEMPTIONS_PER_SECOND and canary > factor * reference for canary, reference in worst
    ):
        canary, reference = worst[-1]
        return f"{canary:.2f} preemptions/s for {PREEMPTION_MINUTES} min, {reference:.2f} in the reference"
    return None


def _token_time(recent: Sequence[Block]) -> str | None:
    ratios = [ratio for block in recent if (ratio := block.token_time_ratio) is not None]
    if len(ratios) == TOKEN_TIME_BLOCKS and min(ratios) > TOKEN_TIME_RATIO:
        return (
            f"time per output token {ratios[-1]:.2f} times the reference's, {TOKEN_TIME_BLOCKS} min in a row"
        )
    return None


def _attainment(recent: Sequence[Block], dispersion: float) -> str | None:
    timely, requests = [], []
    for minutes in ([block.canary for block in recent], [block.reference for block in recent]):
        known = [one for one in minutes if one.timely_first_tokens is not None]
        timely.append(sum(one.timely_first_tokens or 0.0 for one in known))
        requests.append(sum(one.first_tokens for one in known))
    calm = sum(not block.queues for block in recent)
    if calm < ATTAINMENT_BLOCKS or min(requests) < ATTAINMENT_REQUESTS:
        return None
    canary, reference = (part / whole for part, whole in zip(timely, requests, strict=True))
    pooled = sum(timely) / sum(requests)
    variance = dispersion * pooled * (1.0 - pooled) * sum(1.0 / whole for whole in requests)
    if reference - canary > max(ATTAINMENT_DROP, ATTAINMENT_DEVIATIONS * math.sqrt(variance)):
        return f"{canary:.0%} of the first tokens in time, {reference:.0%} in the reference"
    return None


def _queue(recent: Sequence[Block]) -> str | None:
    canary = [block.canary.waiting for block in recent]
    grows = len(canary) == QUEUE_MINUTES + 1 and all(late > early for early, late in pairwise(canary))
    if grows and canary[-1] >= QUEUE and not any(block.reference.queues for block in recent):
        return f"the canary's queue grew for {QUEUE_MINUTES} min to {canary[-1]:.0f} requests a pod"
    return None
