"""Whether a pool is better off without its proposer: hard-off, and the way back.

Depth 0 with a proposer loaded is not the baseline: it pays a tax, and there may be no depth at which drafts
earn it back. Only pods that are started without the proposer do not pay. That is a restart, so it is judged
over the load of a day (`profile`) and by the acceptance of that day. Counters of pods that have a
proposer hardly tell a tax from dear drafts, so what they leave open is measured in a trial without it, once a
week at most unless it shows a gain. Drafts that are hardly ever accepted (`rejection`) need neither day nor
trial. Source: design/tuning.md, sections 2, 12 and 13.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from specfleet.tuning.bins import Bin, bin_of, bins
from specfleet.tuning.decision import HardOff, LoadProposer
from specfleet.tuning.estimates import Estimates, Gain
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.learn import forget
from specfleet.tuning.memory import Memory
from specfleet.tuning.profile import Block
from specfleet.tuning.rejection import is_rejected, off_if_rejected, why_rejected
from specfleet.tuning.restart import is_calm, restart_share
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.unloaded import TRIAL_SECONDS, Judged, next_pause

JUDGE_SECONDS = 60.0
LEAST_PROFILE_SECONDS = 3600.0
LEAST_SAVED = 0.02
STANDS_SECONDS = 1800.0  # acceptanceCollapseMinutes of design/tuning.md, section 12
DAY = 24 * 3600.0
BETWEEN_TRIALS_SECONDS = 7 * DAY
HOPE = 1.28  # the chance of 10 % at which a depth is tried, too
ENOUGH_WINDOWS = 5
LONGEST_TRIAL_SECONDS = 3 * 3600.0


def judged(settings: PoolSettings, memory: Memory, estimates: Estimates, now: float) -> Memory:
    """Judge, once a minute, what pods without the proposer would have brought over the profile."""
    before, profile = memory.judged, tuple(one for one in memory.profile if one.loaded)
    if sum(one.seconds for one in profile) < LEAST_PROFILE_SECONDS:
        # While it is unloaded the load with it ages out, and what was judged by it stands.
        return memory if memory.unloaded is not None else replace(memory, judged=None)
    if before is not None and now - before.at < JUDGE_SECONDS:
        return memory
    usual, all_bins = replace(estimates, survival=memory.usual), bins(settings.max_requests)
    load = _load(profile, all_bins)
    usual.prepare([all_bins[i].middle for i in load], settings.candidates, without=True)
    gain = mean_gain(load, {i: usual.without(all_bins[i].middle, settings.candidates) for i in load})
    surely, possibly = gain.cautious, gain.expected + HOPE * gain.sd
    batch = all_bins[max(load, key=lambda i: load[i])].middle
    depth = max(settings.candidates, key=lambda one: usual.rate(batch, one))
    return replace(
        memory,
        judged=Judged(
            at=now,
            since=_since(before.since if before else None, surely, now),
            hoped_since=_since(before.hoped_since if before else None, possibly, now),
            saved=_share(gain.expected),
            surely=_share(surely),
            possibly=_share(possibly),
            hours=sum(load.values()) / 3600.0,
            batch=batch,
            depth=depth,
            token=1.0 / usual.rate(batch, depth),
            without=usual.seconds_without(batch),
        ),
    )


def _since(before: float | None, gain: float, now: float) -> float | None:
    """Say since when a gain has been worth a restart; None: it is not."""
    if gain <= LEAST_SAVED:
        return None
    return now if before is None else before


def _load(profile: Sequence[Block], all_bins: tuple[Bin, ...]) -> dict[int, float]:
    """Sum the seconds of each bin."""
    found: dict[int, float] = {}
    for one in profile:
        index = bin_of(one.batch, all_bins)
        found[index] = found.get(index, 0.0) + one.seconds
    return found


def mean_gain(load: Mapping[int, float], gains: Mapping[int, Gain]) -> Gain:
    """Weigh gains by time. What the model misses it may miss in all bins at once: no sd cancels another."""
    total = sum(load.values())
    return Gain(
        sum(seconds * gains[i].expected for i, seconds in load.items()) / total,
        sum(seconds * gains[i].sd for i, seconds in load.items()) / total,
    )


def _share(gain: float) -> float:
    """Give the share of a token's time that is saved by pods that are faster by that ln."""
    return -math.expm1(-gain)


def is_measured(memory: Memory) -> bool:
    """Say whether steps without the proposer were measured long enough, within a day."""
    return sum(1 for one in memory.windows if not one.loaded) >= ENOUGH_WINDOWS


def considered(settings: PoolSettings, evidence: Evidence, memory: Memory) -> Memory:
    """Start anew with another configuration, but for the one without the proposer, which is our own doing."""
    unloaded = memory.unloaded
    if unloaded is not None and unloaded.proposer != settings.proposer:
        # The new pods come with a proposer, and the schedule is still that of pods without.
        memory = replace(memory, unloaded=None, restore=unloaded.table)
    if len(evidence.fingerprints) != 1 or evidence.fingerprints & {memory.fingerprint, memory.without}:
        return memory
    (found,) = evidence.fingerprints
    if memory.unloaded is None:
        return forget(memory, found)
    # Other hardware while the proposer is out: what it is like with the proposer is not known either.
    return replace(forget(memory, "") if memory.without else memory, without=found)


def allowed(settings: PoolSettings, memory: Memory) -> PoolSettings:
    """Give the settings of pods without a proposer, if that is how they are to serve."""
    return settings if memory.unloaded is None else replace(settings, initial_depth=0, max_depth=0)


def reload(
    settings: PoolSettings, memory: Memory, estimates: Estimates | None, now: float, *, calm: bool
) -> LoadProposer | None:
    """Load the proposer again when the user wants its depths, or after the pause, when few users meet it."""
    unloaded = memory.unloaded
    if unloaded is None:
        return None
    if settings.tuning.mode != "Enforce":
        return LoadProposer(f"mode {settings.tuning.mode} leaves that to the user: loads the proposer again")
    if settings.pin is not None and any(row.depth > 0 for row in settings.pin):
        return LoadProposer("tuning.schedule needs the proposer: loads it again")
    if now < unloaded.until:
        return None
    age = now - unloaded.since
    if unloaded.trial:
        # No load of the day may be low enough, and data may be away for ever.
        overdue = age >= LONGEST_TRIAL_SECONDS and (calm or age >= DAY)
        return _after_trial(settings, memory, estimates, overdue=overdue)
    return LoadProposer(f"tries the proposer again after {age / 3600.0:.0f} h without it") if calm else None


def _after_trial(
    settings: PoolSettings, memory: Memory, estimates: Estimates | None, *, overdue: bool
) -> LoadProposer | None:
    """Go back as soon as that costs less than to stay: the load may rise for hours."""
    found = memory.judged
    if found is None or not is_measured(memory):
        why_not = "ends the trial without the proposer: there was nothing to measure"
        return LoadProposer(why_not) if overdue else None
    # In doubt the pool stays as it is: what is measured after a restart is blurred by the machine's level.
    if -found.saved <= LEAST_SAVED:
        return None
    repaid = (
        estimates is not None
        and memory.queue_since is None
        and -found.saved > LEAST_SAVED + restart_share(settings, memory, estimates, DAY)
    )
    return LoadProposer(f"{why(found)}: ends the trial without it") if repaid or overdue else None


def settled(settings: PoolSettings, memory: Memory, now: float) -> Memory:
    """Let a trial become a pause unless the pool turns out to be worse off."""
    unloaded, found = memory.unloaded, memory.judged
    if unloaded is None or not unloaded.trial or found is None or now < unloaded.until:
        return memory
    if not is_measured(memory) or found.saved < -LEAST_SAVED:
        return memory
    pause = next_pause(memory.last_pause, settings.proposer)
    reason = f"{why(found)}; tried again in {pause / 3600.0:.0f} h"
    kept = replace(unloaded, since=now, pause=pause, reason=reason, trial=False)
    return replace(memory, unloaded=kept, tried_at=None)


def due(settings: PoolSettings, memory: Memory, estimates: Estimates, now: float) -> HardOff | None:
    """Unload the proposer if that has been worth a restart for long enough, and few users meet it now."""
    # Reconcile leaves refused pools as they are, and refuses mode Enforce where there is one depth.
    if settings.held or settings.actuator == "fixed" or _pushes_left(settings, memory, now) < 1:
        return None
    return off_if_rejected(settings, memory, estimates) or _off_by_load(settings, memory, estimates, now)


def _off_by_load(settings: PoolSettings, memory: Memory, estimates: Estimates, now: float) -> HardOff | None:
    found, last = memory.judged, memory.last_pause
    # What was measured before a pause is hours old: the doubt is that of before the first trial.
    trial = not is_measured(memory) or (last is not None and last.proposer == settings.proposer)
    if found is None or not is_calm(settings, memory):
        return None
    if not stands(found.hoped_since if trial else found.since, now):
        return None
    if trial and not _may_try(settings, memory, now):
        return None
    pause = DAY if trial else next_pause(last, settings.proposer)
    bar = LEAST_SAVED + restart_share(settings, memory, estimates, pause)
    if trial and found.possibly > bar:
        return HardOff(f"{why(found)}: tries it for 20 min", TRIAL_SECONDS, trial=True)
    if trial or found.surely <= bar:
        return None
    return HardOff(f"{why(found)}; tried again in {pause / 3600.0:.0f} h", pause)


def _may_try(settings: PoolSettings, memory: Memory, now: float) -> bool:
    """One push takes the table down, and one brings it back within the hour."""
    lately = memory.tried_at is not None and now - memory.tried_at < BETWEEN_TRIALS_SECONDS
    needed = min(2, settings.tuning.max_pushes_per_hour)
    return not lately and _pushes_left(settings, memory, now) >= needed


def _pushes_left(settings: PoolSettings, memory: Memory, now: float) -> int:
    return settings.tuning.max_pushes_per_hour - memory.pushes_within_hour(now)


def advised(settings: PoolSettings, memory: Memory, now: float) -> str | None:
    """Say why the pool is better off without its proposer, once that is sure, and what is next."""
    if memory.unloaded is not None or settings.tuning.mode == "Observe":
        return None
    found = memory.judged
    if is_rejected(memory):
        said = why_rejected(memory)
    elif found is not None and found.surely > LEAST_SAVED and stands(found.since, now):
        said = why(found)
    else:
        return None
    next_step = "write speculation.method none"
    if settings.tuning.mode != "Enforce" and settings.actuator != "fixed":
        next_step += ", or mode Enforce restarts the pods"
    elif settings.tuning.mode == "Enforce" and not settings.held:
        next_step = "the pods are restarted once few requests would meet it, if that is worth it"
    return f"{said}; {next_step}"


def stands(since: float | None, now: float) -> bool:
    """Say whether a judgement against the proposer has held long enough to be told, and acted on."""
    return since is not None and now - since >= STANDS_SECONDS


def why(found: Judged) -> str:
    """Say it in words and numbers, for status."""
    return (
        f"over {found.hours:.1f} h of load a token takes {found.saved:+.0%} less without the proposer, "
        f"surely {found.surely:+.0%} and possibly {found.possibly:+.0%}: at {found.batch:.0f} running "
        f"requests {1000 * found.without:.1f} ms against {1000 * found.token:.1f} at depth {found.depth}"
    )
