"""What to try next: short probes of one depth on the loads in use.

Untried depths and depth 0 are learnt that way; the decision is then made by the rules of `optimise`.
Source: design/tuning.md, section 8, with these rules of our own:

* After a jump of acceptance the next probe comes at once and goes straight to the deepest depth that was
  measured here before: its cost is known, only its acceptance is open.
* All others wait until it is known what the depth in use accepts now: there is nothing to compare them with.
* After a jump that leaves drafts little to bring, depth 0 is the first. It was compared with the depth in use
  while that verified other drafts.
* From depth 0 the first step is the shallowest depth. It shows whether acceptance has come back.
* Towards 0 it goes one notch under what was found as good as the depth in use: 5 and 3 may be worth the same
  where 1 is worth more.
* A queue that has stood for eight scrapes (2 min) is the pool's normal state, and completed requests per
  second is what a probe measures there. To refuse probes would freeze a wrong depth for ever, so they go on
  while KV headroom and preemptions allow, however late first tokens are. A fresh queue is a burst: nothing
  is tried in it. From depth 0 KV does not hold looks back either: a step at depth 1 takes one token more of
  it, and nothing else can end it.
* A probe that found a gain climbs on at once while the next notch promises more (at most three notches): one
  push at the end instead of one per notch.

A probe is one half of a comparison: the other is the spans of the old depth before and after it (`drift`). So
none begins before the one before has its span after.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specfleet.api.schedule import depth_for
from specfleet.tuning.cost import ENOUGH_STEPS
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.exploration import affordable
from specfleet.tuning.floors import NO_PROBE_BURN, NO_PROBE_HEADROOM, burn, preempted, worst_headroom
from specfleet.tuning.memory import Memory
from specfleet.tuning.optimise import Situation
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.steadiness import MARGIN

STANDING_QUEUE_SCRAPES = 8
LEAST_CHANCE = 0.1  # of being better, to be tried again
LIKELY = 0.5  # of being better: nothing is lost by trying it, and a push may only lack certainty
REFRESH_SECONDS = 1800.0  # every neighbour is tried again after that, whatever its chance
CLOSE = 0.98
CHEAP = 0.9
PROMISING = 1.0
MOST_RUNGS = 3
LOOK_SHARE = 0.8  # of the interval: a look from depth 0 that sees a change is followed by a probe and a push
LEFT = 2.0
MAX_SCRAPES = 3


@dataclass(frozen=True, slots=True)
class Target:
    depth: int
    reason: str


def over(memory: Memory, settings: PoolSettings, now: float) -> str | None:
    """Say why the probe in force ends now; None: it goes on."""
    probe = memory.probe
    if probe is None:
        return None
    if memory.batch is not None and not probe.batch / LEFT <= memory.batch <= probe.batch * LEFT:
        return f"the load left the probe's range: {memory.batch:.1f} running requests"
    seconds = now - probe.started
    if seconds >= settings.pace.probe_seconds and probe.steps >= ENOUGH_STEPS:
        return f"depth {probe.depth} was measured over {probe.steps:.0f} steps"
    if seconds >= settings.pace.probe_seconds + MAX_SCRAPES * settings.scrape_seconds:
        return f"time is up after {probe.steps:.0f} steps at depth {probe.depth}"
    return None


def after_jump(memory: Memory) -> bool:
    """Say whether traffic has changed since the last probe began."""
    return memory.jumped_at is not None and memory.jumped_at > (memory.probed_at or 0.0)


def refusal(memory: Memory, settings: PoolSettings, now: float, *, blind: bool = False) -> str | None:
    """Say why nothing may be tried now. ``blind``: depth 0 is in force at the load in use."""
    if settings.actuator != "live":
        return "no probe where another depth is another pod"
    if preempted(memory.pressures):
        return "no probe after preemptions"
    queued = now - memory.queue_since if memory.queue_since is not None else None
    standing = queued is not None and queued >= STANDING_QUEUE_SCRAPES * settings.scrape_seconds
    if queued is not None and not standing:
        return "no probe in a fresh queue"
    headroom, burning = worst_headroom(memory.pressures), burn(memory.pressures)
    if headroom is not None and headroom < NO_PROBE_HEADROOM and not (blind and standing):
        return f"no probe with KV headroom {headroom:.0%}"
    # In a standing queue first tokens are late at every depth, and only a better one makes them less so.
    if burning is not None and burning > NO_PROBE_BURN and not standing:
        return f"no probe while first tokens are late {burning:.1f} times as often as they may be"
    return None


def target(
    memory: Memory, estimates: Estimates, situation: Situation, settings: PoolSettings, now: float
) -> Target | None:
    """Choose the depth to try at the batch in use; None: nothing is due."""
    batch = memory.batch
    if batch is None:
        return None
    current = depth_for(situation.table, max(1, round(batch)))
    jumped = after_jump(memory)
    deeper = _deeper(estimates, batch, current, settings.candidates, jumped)
    if jumped and deeper is not None and not estimates.survival.known(deeper):
        return Target(deeper, f"acceptance has jumped: depth {deeper} is tried at once")
    if not estimates.survival.known(current):
        return None
    if current and _compared_before_jump(memory, estimates, batch, current, settings, now):
        return Target(0, f"traffic has changed since depth 0 was measured at {batch:.1f} running requests")
    wishes = (deeper, 0 if current else None, _shallower(estimates, batch, current, settings.candidates))
    due = [
        wish
        for depth in dict.fromkeys(wishes)
        if depth is not None and (wish := _wish(depth, current, memory, estimates, settings, now)) is not None
    ]
    if not due:
        return None
    best = max(due, key=lambda wish: wish.chance)
    return Target(best.depth, best.reason)


@dataclass(frozen=True, slots=True)
class _Wish:
    """A probe that is due. ``chance``: that the depth is better than the one in force."""

    depth: int
    chance: float
    reason: str


def _wish(
    depth: int, current: int, memory: Memory, estimates: Estimates, settings: PoolSettings, now: float
) -> _Wish | None:
    batch, pace, waited = memory.batch or 1.0, settings.pace, _waited(memory, now)
    last = estimates.cost.last_measured(batch, depth)
    chance = estimates.gain(batch, depth, current).chance_over(MARGIN)
    if last is None or not estimates.timed(batch, depth):
        due = waited >= _unknown_seconds(settings)
        reason = f"depth {depth} at {batch:.1f} running requests is not known well enough"
        # Depth 0 is what everything is compared with: it has to be seen once, however bad it looks.
        return _Wish(depth, chance, reason) if due and (depth == 0 or chance >= LEAST_CHANCE) else None
    # At depth 0 nothing is drafted: only a probe can see that acceptance has come back.
    blind = current == 0
    soon = chance >= LIKELY or (blind and _cheap(estimates, batch, depth, than=0))
    known = pace.probe_known_interval_seconds * (LOOK_SHARE if blind else 1.0)
    interval = pace.probe_unknown_interval_seconds if soon else known
    if min(waited, now - last) < max(interval, pace.probe_seconds):
        return None
    stale = now - last >= REFRESH_SECONDS
    if not (blind or stale or chance >= LEAST_CHANCE):
        return None
    affords = affordable(memory, estimates, depth, current, pace.probe_seconds)
    if not (affords or (blind and waited >= known)):
        return None
    reason = f"depth {depth} at {batch:.1f} running requests is better with a chance of {chance:.0%}"
    looks_up = f"depth 0 drafts nothing: depth {depth} shows whether acceptance has come back"
    return _Wish(depth, chance, looks_up if blind else reason)


def _waited(memory: Memory, now: float) -> float:
    """Seconds since a probe last began or ended."""
    return now - memory.probed_at if memory.probed_at is not None else math.inf


def _unknown_seconds(settings: PoolSettings) -> float:
    """Seconds between two probes of what is not known: the span after the one before is part of it."""
    return max(settings.pace.probe_unknown_interval_seconds, settings.pace.probe_seconds)


def _cheap(estimates: Estimates, batch: float, depth: int, than: int) -> bool:
    return estimates.rate(batch, depth) >= CHEAP * estimates.rate(batch, than)


def _compared_before_jump(
    memory: Memory, estimates: Estimates, batch: float, current: int, settings: PoolSettings, now: float
) -> bool:
    """Say whether depth 0 was last measured under other traffic, and may be the better one now."""
    last, jump = estimates.cost.last_measured(batch, 0), memory.jumped_at
    outdated = last is not None and jump is not None and last < jump
    due = _waited(memory, now) >= _unknown_seconds(settings)
    return outdated and due and _cheap(estimates, batch, 0, than=current)


def further(memory: Memory, estimates: Estimates, found: int, candidates: Sequence[int]) -> Target | None:
    """Climb on while a probe that just ended showed a gain and the next notch promises more.

    One push at the end of the climb instead of one per notch: pushes are scarce, and each costs a cool-down.
    """
    probe, batch = memory.probe, memory.batch
    if probe is None or batch is None or probe.rung >= MOST_RUNGS or found != probe.depth:
        return None
    above = min((depth for depth in candidates if depth > found), default=None)
    if above is None or estimates.measured(batch, above):
        return None
    if estimates.rate(batch, above) < PROMISING * estimates.rate(batch, found):
        return None
    return Target(above, f"depth {found} pays and depth {above} promises more")


def _shallower(estimates: Estimates, batch: float, current: int, candidates: Sequence[int]) -> int | None:
    """Give the next depth to try towards 0."""
    below = [depth for depth in reversed(candidates) if 0 < depth < current]
    return _onwards(estimates, batch, current, below)


def _deeper(
    estimates: Estimates, batch: float, current: int, candidates: Sequence[int], jumped: bool
) -> int | None:
    """Give the next deeper depth to try."""
    above = [depth for depth in candidates if depth > current]
    tried = [depth for depth in above if estimates.timed(batch, depth)]
    if jumped and tried and not estimates.survival.known(max(tried)):
        return max(tried)
    return _onwards(estimates, batch, current, above)


def _onwards(estimates: Estimates, batch: float, current: int, outwards: Sequence[int]) -> int | None:
    """Give the next depth on one side, nearest first: one notch over what is as good as the one in use."""
    for depth in outwards:
        if not (estimates.timed(batch, depth) and estimates.survival.known(depth)):
            return depth
        if estimates.rate(batch, depth) < CLOSE * estimates.rate(batch, current):
            return depth
    return outwards[-1] if outwards else None
