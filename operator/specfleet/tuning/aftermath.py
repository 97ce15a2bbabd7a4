"""What a decision leaves in memory: times, the probe, the moves of cells, the cost of a probe."""

from dataclasses import replace

from specfleet.api.schedule import Table, depth_for
from specfleet.tuning.decision import Decision, EndProbe, HardOff, Hold, LoadProposer, Probe, Push
from specfleet.tuning.exploration import cost
from specfleet.tuning.memory import Memory, ProbeRun
from specfleet.tuning.move import Known
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.steadiness import Steadiness
from specfleet.tuning.survival import Survival
from specfleet.tuning.unloaded import LastPause, Unloaded


def remembered(
    memory: Memory, decision: Decision, known: Known, settings: PoolSettings, now: float
) -> Memory:
    """Give the memory after a decision that will be carried out."""
    match decision:
        case Hold():
            return memory
        case HardOff(reason=reason, pause=pause, trial=trial):
            table = known.situation.table
            unloaded = Unloaded(settings.proposer, now, pause, reason, table, trial)
            return replace(memory, unloaded=unloaded, tried_at=now if trial else None, judged=None)
        case LoadProposer():
            return _loaded_again(memory)
    memory = replace(_charged(memory, known, now), written_at=now, ineffective_passes=0)
    probed_at = now if memory.probe else memory.probed_at
    match decision:
        case Push(table=table):
            return replace(
                memory,
                pushes=(*memory.pushes, now),
                steadiness=_moved(memory, table, known, settings, now),
                probe=None,
                probed_at=probed_at,
                restore=None,
            )
        case Probe(depth=depth):
            rung = memory.probe.rung + 1 if memory.probe else 1
            run = ProbeRun(depth, now, known.situation.table, memory.batch or 1.0, rung=rung)
            return replace(memory, probe=run, probed_at=now)
        case EndProbe():
            return replace(memory, probe=None, probed_at=now)


def _loaded_again(memory: Memory) -> Memory:
    """After a pause acceptance may be another one: the next judgement needs an hour of it."""
    unloaded = memory.unloaded
    assert unloaded is not None
    memory = replace(memory, unloaded=None, restore=unloaded.table, judged=None)
    if unloaded.trial:
        return memory
    last = LastPause(unloaded.proposer, unloaded.pause)
    return replace(memory, last_pause=last, usual=Survival(), profile=())


def _moved(memory: Memory, table: Table, known: Known, settings: PoolSettings, now: float) -> Steadiness:
    """A pin is the user's word and no flapping."""
    if settings.pin is not None:
        return memory.steadiness
    return memory.steadiness.after(known.situation.table, table, known.situation.bins, now)


def _charged(memory: Memory, known: Known, now: float) -> Memory:
    probe = memory.probe
    if probe is None or known.estimates is None:
        return memory
    current = depth_for(known.situation.table, max(1, round(probe.batch)))
    return replace(memory, spent=(*memory.spent, cost(probe, known.estimates, current, now)))
