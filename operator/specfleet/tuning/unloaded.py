"""What is remembered of hard-off: the judgement, and that a pool serves without its proposer."""

from dataclasses import dataclass

from specfleet.api.schedule import Table

TRIAL_SECONDS = 1200.0  # design/tuning.md, section 2: planned windows of at least 20 min
FIRST_PAUSE_SECONDS = 6 * 3600.0
LONGEST_PAUSE_SECONDS = 8 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What pods without the proposer would save of the time per token, as a share, over ``hours`` of load.

    ``surely`` is its 20 % quantile, ``possibly`` its 90 % quantile; since ``since`` and ``hoped_since`` they
    have been worth a restart, or a trial; None: they are not. ``batch`` is the most frequent load, ``depth``
    the best one there; ``token`` and ``without`` are seconds per token with and without the proposer.
    """

    at: float
    since: float | None
    saved: float
    surely: float
    possibly: float
    hours: float
    batch: float
    depth: int
    token: float
    without: float
    hoped_since: float | None = None


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Pods are to serve without their proposer from ``since`` on, and ``pause`` seconds at least.

    ``proposer``: the key of the settings that were judged (`PoolSettings.proposer`). ``table``
    was in force before. ``trial``: only to measure what a step takes then.
    """

    proposer: str
    since: float
    pause: float
    reason: str
    table: Table
    trial: bool = False

    @property
    def until(self) -> float:
        return self.since + self.pause


@dataclass(frozen=True, slots=True)
class LastPause:
    """The proposer was tried again after a pause: the next one is twice as long."""

    proposer: str
    seconds: float


def next_pause(last: LastPause | None, proposer: str) -> float:
    """Give the seconds until a proposer that is unloaded now is tried again."""
    if last is None or last.proposer != proposer:
        return FIRST_PAUSE_SECONDS
    return min(LONGEST_PAUSE_SECONDS, 2.0 * last.seconds)
