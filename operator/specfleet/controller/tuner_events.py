"""Which Events a pass gives: decisions, transitions and faults, each when it is new. Pure."""

from collections.abc import Iterator

from specfleet.cluster.events import EventType
from specfleet.tuning.decide import Outcome
from specfleet.tuning.decision import NOTEWORTHY, EndProbe, HardOff, Hold, LoadProposer, Probe, Push


def news(pool: str, before: Outcome | None, after: Outcome) -> Iterator[tuple[EventType, str, str]]:
    """Give (type, reason, note) of each Event of one pool."""
    note = f"pool {pool}: {after.decision.reason}"
    match after.decision:
        case Push():
            yield "Normal", "SchedulePushed", note
        case Probe():
            yield "Normal", "ProbeStarted", note
        case EndProbe():
            yield "Normal", "ProbeEnded", note
        case HardOff():
            yield "Normal", "ProposerUnloaded", note
        case LoadProposer():
            yield "Normal", "ProposerLoaded", note
        case Hold(kind=kind) if kind in NOTEWORTHY and _kind(before) != kind:
            yield ("Normal" if kind == "Paused" else "Warning"), kind, note
    if before is not None and before.hard_off is None and after.hard_off is not None:
        yield "Normal", "HardOffAdvised", f"pool {pool}: {after.hard_off}"
    if before is not None and before.state != after.state:
        yield (
            "Normal",
            "StateChanged",
            f"pool {pool}: {before.state} -> {after.state}: {after.decision.reason}",
        )


def _kind(outcome: Outcome | None) -> str | None:
    return outcome.decision.kind if outcome is not None and isinstance(outcome.decision, Hold) else None
