"""Blocks: the same minute of the canary and of its reference, and the log-ratios that they give.

Source: design/tuning.md, section 10.2.
"""

import math
from dataclasses import dataclass

MIN_COMPLETIONS = 20.0
QUEUE = 2.0  # mean waiting requests of a pod from which on it is said to queue
CLIP = 0.5


@dataclass(frozen=True, slots=True)
class SliceMinute:
    """One slice over one minute, summed over its pods; ``waiting`` is the mean of one pod.

    ``failures`` are aborts, errors and timeouts, the engine's and the gateway's. ``timely_first_tokens`` is
    None where no limit of the time to first token is set.
    """

    pods: int
    seconds: float
    completions: float
    decode_seconds: float
    decode_tokens: float
    waiting: float
    failures: float = 0.0
    preemptions: float = 0.0
    out_of_memory: int = 0
    first_tokens: float = 0.0
    timely_first_tokens: float | None = None

    @property
    def queues(self) -> bool:
        return self.waiting >= QUEUE

    @property
    def token_seconds(self) -> float | None:
        """Seconds per output token, by tokens and not by requests; None: no token."""
        return self.decode_seconds / self.decode_tokens if self.decode_tokens > 0.0 else None

    @property
    def preemptions_per_second(self) -> float:
        return self.preemptions / self.seconds


@dataclass(frozen=True, slots=True)
class Block:
    """The same minute of two slices."""

    canary: SliceMinute
    reference: SliceMinute

    @property
    def complete(self) -> bool:
        """Say whether both slices finished enough requests to be compared."""
        return min(self.canary.completions, self.reference.completions) >= MIN_COMPLETIONS

    @property
    def queues(self) -> bool:
        """Say whether a slice queues: how long a request waits is then luck, also between equal slices."""
        return self.canary.queues or self.reference.queues

    @property
    def token_time_ratio(self) -> float | None:
        """Time per output token of the canary over that of the reference.

        None: the block does not count, since it is thin or a slice queues.
        """
        canary, reference = self.canary.token_seconds, self.reference.token_seconds
        if not self.complete or self.queues or not canary or not reference:
            return None
        return canary / reference

    @property
    def latency_log_ratio(self) -> float | None:
        """x of the latency test; None: the block does not count."""
        ratio = self.token_time_ratio
        return None if ratio is None else _clipped(math.log(ratio))

    @property
    def throughput_log_ratio(self) -> float | None:
        """x of the throughput test: minus the log-ratio of completions per pod where both slices queue."""
        if not (self.complete and self.canary.queues and self.reference.queues):
            return None
        return _clipped(-math.log(_rate(self.canary) / _rate(self.reference)))


def _rate(minute: SliceMinute) -> float:
    return minute.completions / minute.seconds / minute.pods


def _clipped(log_ratio: float) -> float:
    return min(CLIP, max(-CLIP, log_ratio))
