"""Whether to push: floors, the best table, and the rules that keep pushes rare.

Source: design/tuning.md, sections 7 and 10.1.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from specfleet.api.schedule import Table, depth_for
from specfleet.tuning.decision import Hold, Push
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.floors import Floor, floors
from specfleet.tuning.memory import Memory
from specfleet.tuning.optimise import Situation, best_table, gain
from specfleet.tuning.rows import written
from specfleet.tuning.settings import LEAST_GAIN, PoolSettings

# The scarcer the pushes that are left in this hour, the more one must bring: each the same factor more.
GAIN_FOR_LAST = 0.12
PAUSE_AFTER_SCALING_SECONDS = 300.0  # design/tuning.md, section 11


class Known(Protocol):
    @property
    def situation(self) -> Situation: ...
    @property
    def estimates(self) -> Estimates | None: ...


def choose(settings: PoolSettings, memory: Memory, known: Known, now: float) -> Push | Hold:
    """Push the best table if it is worth it, or say why the one in force stays."""
    estimates, situation = known.estimates, known.situation
    if estimates is None or memory.batch is None:
        return Hold("NoTraffic", "nothing has been decoded yet")
    least = estimates.least_depth(memory.batch)
    limits = floors(settings.objectives, memory.pressures, tuple(situation.bins), least)
    lowered = _under(limits, situation.table, settings)
    if limits and lowered != situation.table:
        # Safety skips the cool-down and the least gain; the limit of pushes is the user's word.
        return exhausted(settings, memory, limits[-1].reason, now) or Push(lowered, limits[-1].reason)
    if memory.load_is_new:
        return Hold(
            "NewLoad", f"{memory.batch:.1f} running requests are a new load: waits for its acceptance"
        )
    table = best_table(estimates, situation)
    if settings.actuator == "rollout":
        # No probe tells more: what Recommend shows is pushed, against a higher bar.
        table, _ = recommended(estimates, situation)
        estimates = replace(estimates, cautious=False)
    table = _under(limits, table, settings)
    promise = gain(estimates, situation, table)
    if promise <= settings.least_gain:
        return Hold("Settled", _settled(settings, estimates, situation, memory.batch))
    reason = f"{written(table)} promises {promise:+.1%}"
    held = (
        _scaled(memory, reason, now)
        or _cooling(settings, memory, reason, now)
        or exhausted(settings, memory, reason, now)
        or _not_worth(settings, memory, reason, promise, now)
    )
    return held or Push(table, _why(estimates, situation, table, promise))


def _under(limits: Sequence[Floor], table: Table, settings: PoolSettings) -> Table:
    for limit in limits:
        table = limit.applied(table, settings.max_requests)
    return table


def _scaled(memory: Memory, reason: str, now: float) -> Hold | None:
    """After a change of replicas the load of each pod is another one for a while."""
    if memory.scaled_at is None or now - memory.scaled_at >= PAUSE_AFTER_SCALING_SECONDS:
        return None
    wait = memory.scaled_at + PAUSE_AFTER_SCALING_SECONDS - now
    return Hold("Scaled", f"{reason}, in {wait:.0f} s: the pool was scaled to {memory.replicas} pods")


def _cooling(settings: PoolSettings, memory: Memory, reason: str, now: float) -> Hold | None:
    wait = _cool_down(settings, memory, now)
    return Hold("CoolDown", f"{reason}, in {wait:.0f} s") if wait > 0.0 else None


def exhausted(settings: PoolSettings, memory: Memory, reason: str, now: float) -> Hold | None:
    """Say that no push is left in this hour, if so: the limit is the user's word."""
    used, most = memory.pushes_within_hour(now), settings.tuning.max_pushes_per_hour
    return (
        Hold("PushLimit", f"{reason}, but {used} of {most} pushes an hour are used") if used >= most else None
    )


def _not_worth(
    settings: PoolSettings, memory: Memory, reason: str, promise: float, now: float
) -> Hold | None:
    used, most = memory.pushes_within_hour(now), settings.tuning.max_pushes_per_hour
    needed = _needed(used, most)
    return (
        Hold("PushLimit", f"{reason}; push {used + 1} of {most} needs {needed:.1%}")
        if promise < needed
        else None
    )


def _cool_down(settings: PoolSettings, memory: Memory, now: float) -> float:
    last = max(memory.pushes, default=None)
    if last is None or (memory.jumped_at is not None and memory.jumped_at >= last):
        return 0.0
    return last + settings.pace.push_cooldown_seconds - now


def _needed(used: int, most: int) -> float:
    return float(LEAST_GAIN * (GAIN_FOR_LAST / LEAST_GAIN) ** (used / max(1, most - 1)))


def _why(estimates: Estimates, situation: Situation, table: Table, promise: float) -> str:
    """Name the numbers at the most loaded bin that changes."""
    moved = [
        (weight, one)
        for weight, one in zip(situation.weights(), situation.bins, strict=True)
        if depth_for(table, one.last) != depth_for(situation.table, one.last)
    ]
    _, one = max(moved, key=lambda item: item[0])
    before, after = depth_for(situation.table, one.last), depth_for(table, one.last)
    return (
        f"depth {before} -> {after} at {one.first}-{one.last} running requests: "
        f"{_numbers(estimates, one.middle, before)} against {_numbers(estimates, one.middle, after)}, "
        f"{promise:+.1%} over the load; table {written(table)}"
    )


def _numbers(estimates: Estimates, batch: float, depth: int) -> str:
    tokens, seconds = estimates.survival.tokens_per_step(depth), estimates.seconds(batch, depth)
    return f"E_{depth} {tokens:.2f} in {1000 * seconds:.1f} ms"


def _settled(settings: PoolSettings, estimates: Estimates, situation: Situation, batch: float) -> str:
    """Say why the depth stays, and whether the objective is met: the largest J is also the fastest token."""
    depth = depth_for(situation.table, max(1, round(batch)))
    text = f"depth {depth} stays at {batch:.1f} running requests: {_numbers(estimates, batch, depth)}"
    limit, seconds = settings.objectives.time_per_output_token_seconds, 1.0 / estimates.rate(batch, depth)
    if limit is None or seconds <= limit:
        return text
    return (
        f"{text}; {1000 * seconds:.1f} ms a token is over {1000 * limit:g} ms, and no known depth is faster"
    )


def recommended(estimates: Estimates, situation: Situation) -> tuple[Table, float]:
    """Give the table that would be pushed, untried depths by the model, and its expected gain."""
    expected = replace(estimates, cautious=False)
    table = best_table(expected, situation, extrapolate=True)
    return table, gain(expected, situation, table)


def gain_over_depth_zero(estimates: Estimates, situation: Situation) -> float | None:
    """J of the table in force over measured depth 0 at the load in use, less 1; None: not measured."""
    total = 0.0
    weights = 0.0
    for weight, one in zip(situation.weights(), situation.bins, strict=True):
        depth = depth_for(situation.table, one.last)
        both = (estimates.measured(one.middle, depth), estimates.measured(one.middle, 0))
        if weight >= 0.05 and all(both):
            total += weight * math.log(estimates.rate(one.middle, depth) / estimates.rate(one.middle, 0))
            weights += weight
    return math.expm1(total / weights) if weights > 0.0 else None
