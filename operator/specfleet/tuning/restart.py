"""What restarting the pods of a pool costs its users, and when few of them meet it."""

import math

from specfleet.tuning.bins import bins
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.memory import Memory
from specfleet.tuning.profile import QUEUED, calmest, lately
from specfleet.tuning.settings import PoolSettings

CALM_SHARE = 0.25  # of the time
CALM_FACTOR = 1.25
NEARLY_FULL = 0.95
EXPECTED_TAX = 0.05  # source: design/tuning.md, section 5, prior mean


def is_calm(settings: PoolSettings, memory: Memory, *, serving: bool = True) -> bool:
    """Say whether restarts meet few users: no queue, and about as few requests as ever within a day.

    ``serving``: there are ready pods. Without whole data of them nobody knows, so then it is not.
    """
    if not settings.restart_seconds or not serving:
        return True
    if not memory.good_passes or memory.queue_since is not None:
        return False
    least = calmest(memory.profile, CALM_SHARE)
    return lately(memory.profile, memory.seen_at) <= CALM_FACTOR * least


def soon_caught_up(settings: PoolSettings, memory: Memory, estimates: Estimates) -> bool:
    """Say whether what waits while a pod is missing is served within as long again: a low load on any day."""
    if not settings.restart_seconds:
        return True
    if not memory.good_passes or memory.queue_since is not None or not memory.profile:
        return False
    most = _capacity(settings, memory, estimates)
    arriving = lately(memory.profile, memory.seen_at)
    return _left(memory, arriving, most) <= most - arriving


def repaid_in_queue(settings: PoolSettings, memory: Memory) -> bool:
    """Say whether a queue stands that lasts until pods without a tax have caught up with their own restart.

    Each pod is missing once, so the pool loses ``restart_seconds`` of all it can do, and wins the tax of what
    it does from then on. A queue is expected to last as long again as it has stood.
    """
    if not memory.good_passes or memory.queue_since is None or memory.seen_at is None:
        return False
    return memory.seen_at - memory.queue_since >= settings.restart_seconds / EXPECTED_TAX


def restart_share(settings: PoolSettings, memory: Memory, estimates: Estimates, pause: float) -> float:
    """Give what two restarts cost, as a share of what users wait in a pause between them.

    While a pod is missing, what the others cannot take waits, and afterwards until they have caught up.
    """
    profile, pods = memory.profile, max(1, memory.replicas or 1)
    down = settings.restart_seconds
    if not down:
        return 0.0
    arriving = lately(profile, memory.seen_at)
    most = _capacity(settings, memory, estimates)
    if arriving >= NEARLY_FULL * most:
        return math.inf
    left = _left(memory, arriving, most)
    cost = pods * left * down**2 / 2.0 * (1.0 + left / (most - arriving))
    seconds = sum(one.seconds for one in profile)
    present = sum(one.present * one.seconds for one in profile) / seconds
    return 2.0 * cost / (present * pause) if present else math.inf


def _left(memory: Memory, arriving: float, most: float) -> float:
    """Completions a second that the other pods cannot take over from one that is missing."""
    pods = max(1, memory.replicas or 1)
    return max(0.0, arriving - most * (pods - 1) / pods)


def _capacity(settings: PoolSettings, memory: Memory, estimates: Estimates) -> float:
    """Completions a second that the pool can reach: what it did under a queue, else by the model."""
    profile = memory.profile
    queued = [one.completions for one in profile if one.waiting >= QUEUED]
    completions = sum(one.completions * one.seconds for one in profile)
    if queued or not completions:
        return max(queued, default=0.0)
    length = sum(one.tokens * one.seconds for one in profile) / completions
    one_pod = max(
        one.middle * estimates.rate(one.middle, depth)
        for one in bins(settings.max_requests)
        for depth in settings.candidates
    )
    return max(1, memory.replicas or 1) * one_pod / length if length else 0.0
