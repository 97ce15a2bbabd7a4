"""All that the tuner remembers of a pool: a value that every pass replaces, written as JSON at decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from specfleet.api.schedule import Table
from specfleet.tuning.floors import Pressure
from specfleet.tuning.jump import JumpWatch
from specfleet.tuning.profile import Profile
from specfleet.tuning.steadiness import HOUR, Steadiness
from specfleet.tuning.survival import Survival
from specfleet.tuning.unloaded import Judged, LastPause, Unloaded
from specfleet.tuning.windows import Windows

NEW_LOAD = 3.0
# A second more, so that whoever counts by another clock finds no push too many within an hour either.
PUSH_HOUR = HOUR + 1.0


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """A probe at ``batch``; ``back_to`` is the table to return to, ``rung`` counts the notches of a climb."""

    depth: int
    started: float
    back_to: Table
    batch: float
    steps: float = 0.0
    rung: int = 1


@dataclass(frozen=True, slots=True)
class Spent:
    """What a probe has cost: seconds of decoding that the table in force would have saved."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class PushFault:
    """Why pushes cannot be trusted: they stop until the engines follow again.

    ``depths`` were run although the table had others.
    """

    reason: Literal["ScheduleNotApplied", "ScheduleNotEffective"]
    message: str
    at: float = 0.0
    depths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """``load``: seconds of decode steps by bin index, forgotten with a half-life of 5 min.

    ``context`` is the mean of cached tokens of a running request, ``rho`` of prompt tokens read for a
    generated one, ``chunk`` of prompt tokens in a step that reads some.
    ``usual_batch`` is the load that acceptance was learnt at, ``scaled_at`` when ``replicas`` last changed,
    ``spent`` what probes of the last hour have cost. ``good_passes`` counts passes with whole data
    since the start or the last fault. ``written_at`` is when the last table was written,
    ``ineffective_passes`` how often the engines' depths did not fit it. ``usual`` is the survival of the last
    day whatever the traffic was, ``profile`` the load of the last day, ``judged`` what both say of the
    proposer. ``unloaded``: the pods are to serve without it; ``without`` is the fingerprint that they have
    then, empty: not known. ``tried_at`` is when a trial began that has shown no gain, ``restore`` the table
    that they get back with the proposer.
    """

    fingerprint: str = ""
    seen_at: float | None = None
    survival: Survival = field(default_factory=Survival)
    jump: JumpWatch = field(default_factory=JumpWatch)
    jumped_at: float | None = None
    windows: Windows = ()
    load: Mapping[int, float] = field(default_factory=dict)
    batch: float | None = None
    usual_batch: float | None = None
    context: float | None = None
    rho: float | None = None
    chunk: float | None = None
    pressures: tuple[Pressure, ...] = ()
    queue_since: float | None = None
    queue_seen_at: float | None = None
    slow_passes: int = 0
    good_passes: int = 0
    faulty: bool = False
    dropped: tuple[tuple[float, int, int], ...] = ()
    pushes: tuple[float, ...] = ()
    steadiness: Steadiness = field(default_factory=Steadiness)
    replicas: int | None = None
    scaled_at: float | None = None
    spent: tuple[Spent, ...] = ()
    probe: ProbeRun | None = None
    probed_at: float | None = None
    written_at: float | None = None
    ineffective_passes: int = 0
    fault: PushFault | None = None
    usual: Survival = field(default_factory=Survival)
    profile: Profile = ()
    judged: Judged | None = None
    unloaded: Unloaded | None = None
    last_pause: LastPause | None = None
    without: str = ""
    tried_at: float | None = None
    restore: Table | None = None

    @property
    def load_is_new(self) -> bool:
        """Say whether the load is far from the one that acceptance was learnt at."""
        if self.batch is None or self.usual_batch is None:
            return False
        return not self.usual_batch / NEW_LOAD <= self.batch <= self.usual_batch * NEW_LOAD

    def pushes_within_hour(self, now: float) -> int:
        return sum(1 for at in self.pushes if now - at < PUSH_HOUR)


_JSON = TypeAdapter(Memory)


def to_json(memory: Memory) -> str:
    """Write a memory for the pool's tuning ConfigMap."""
    return _JSON.dump_json(memory).decode()


def from_json(text: str) -> Memory | None:
    """Read a memory back, without the count of good passes: a new process waits for a full window.

    None: the text is from another release or was changed by hand; the pool is learnt again.
    """
    try:
        memory = _JSON.validate_json(text)
    except ValidationError:
        return None
    return replace(memory, good_passes=0)
