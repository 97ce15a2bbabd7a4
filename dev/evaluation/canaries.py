"""A bench for verdicts: back-to-back canaries of an hour whose pods are as fast as the others, or slower.

Three pods at depth 2: two of the active slice, one canary. The noise of equal slices comes from the two
active pods in the first hours, the verdicts from the canary against one of them afterwards, so noise and
verdict never share a minute. Source: design/simulator.md, section 9.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from specfleet.api.schedule import flat
from specfleet.simulator.acceptance import Acceptance
from specfleet.simulator.pool import EPOCH
from specfleet.simulator.run import Run
from specfleet.simulator.scenario import Scenario, Slice
from specfleet.simulator.traffic import Traffic
from specfleet.tuning.interval import Counts, PodInterval, pooled
from specfleet.tuning.verdict import (
    Canary,
    Guards,
    Minute,
    NoVerdict,
    RollBack,
    SliceMinute,
    Undecided,
    Verdict,
    dispersion_of,
    judge,
    noise_of,
)
from specfleet.tuning.verdict.blocks import Block
from specfleet.tuning.verdict.noise import PRIOR, PRIOR_DISPERSION

HOURS, NOISE_HOURS = 24, 4
LOADS = {"moderate": 0.6, "saturated": 1.0}
SLOWER = {"equal": 1.0, "10": 1.10, "20": 1.20}
FIRST_TOKEN_SECONDS = 2.5  # a bound of the histogram, next to the promised 2 s
_ONE, _OTHER, _CANARY = "one", "other", "canary"


def canary_scenarios() -> tuple[Scenario, ...]:
    """Make a scenario for each load and each step cost of the canary."""
    return tuple(
        Scenario(
            f"canary-{load}-{name}",
            seconds=HOURS * 3600,
            acceptance=Acceptance(collapse=False),
            traffic=Traffic(peak=peak),
            slices=(
                Slice(_ONE, table=flat(2)),
                Slice(_OTHER, table=flat(2)),
                Slice(_CANARY, table=flat(2), slower=slower),
            ),
        )
        for load, peak in LOADS.items()
        for name, slower in SLOWER.items()
    )


def judged(run: Run) -> dict[str, Any]:
    """Judge a run's canaries. ``minutes``: of each roll-back, from the canary's start."""
    slices = {name: minutes_of(run, name) for name in (_ONE, _OTHER, _CANARY)}
    equal = [_block(slices, _ONE, _OTHER, minute) for minute in range(NOISE_HOURS * 60)]
    latency = noise_of([b.latency_log_ratio if b else None for b in equal]) or PRIOR
    throughput = noise_of([b.throughput_log_ratio if b else None for b in equal]) or PRIOR
    dispersion = dispersion_of(
        [_late(b.canary) + _late(b.reference) if b and not b.queues else None for b in equal]
    )
    dispersion = dispersion or PRIOR_DISPERSION
    verdicts = []
    for start in range(NOISE_HOURS * 60, run.scenario.seconds // 60, 60):
        minutes = [
            Minute(block.canary, {"active": block.reference}, latency, throughput, dispersion)
            if block
            else None
            for block in (_block(slices, _CANARY, _ONE, minute) for minute in range(start, start + 60))
        ]
        verdicts.append(verdict_of(minutes))
    return {
        "canaries": len(verdicts),
        "minutes": [minute for minute, verdict in verdicts if isinstance(verdict, RollBack)],
        "reasons": [verdict.reason for _, verdict in verdicts if isinstance(verdict, RollBack)],
        "noVerdict": sum(isinstance(verdict, NoVerdict) for _, verdict in verdicts),
        "sigma": latency.sigma,
        "h": latency.h,
        "dispersion": dispersion,
    }


def verdict_of(minutes: Sequence[Minute | None]) -> tuple[int, Verdict]:
    """Give the minute of the end of a canary and its verdict."""
    canary, verdict = Canary(), Undecided()
    for number, minute in enumerate(minutes, start=1):
        canary, verdict = judge(canary, minute, Guards())
        if not isinstance(verdict, Undecided):
            return number, verdict
    return len(minutes), verdict


def minutes_of(run: Run, name: str) -> dict[int, SliceMinute]:
    """Sum what Prometheus said of a slice over each minute of the run."""
    found: dict[int, list[PodInterval]] = {}
    for one in run.passes:
        for interval in one.readings.intervals:
            if interval.pod[1].rsplit("-", 1)[0] == name and not interval.restarted:
                found.setdefault(int((interval.end - EPOCH) // 60), []).append(interval)
    return {minute: _minute(intervals) for minute, intervals in found.items()}


def _minute(intervals: Sequence[PodInterval]) -> SliceMinute:
    counts = pooled(interval.counts for interval in intervals)
    waiting = [interval.waiting for interval in intervals if interval.waiting is not None]
    return SliceMinute(
        pods=len({interval.pod for interval in intervals}),
        seconds=sum(interval.seconds for interval in intervals),
        completions=counts.completions or 0.0,
        decode_seconds=counts.inter_token_seconds or 0.0,
        decode_tokens=counts.decode_tokens or 0.0,
        waiting=sum(waiting) / len(waiting) if waiting else 0.0,
        preemptions=counts.preemptions or 0.0,
        first_tokens=counts.first_tokens or 0.0,
        timely_first_tokens=_timely(counts),
    )


def _timely(counts: Counts) -> float | None:
    return counts.first_token_buckets.get(FIRST_TOKEN_SECONDS)


def _block(
    slices: Mapping[str, Mapping[int, SliceMinute]], one: str, other: str, minute: int
) -> Block | None:
    if minute in slices[one] and minute in slices[other]:
        return Block(slices[one][minute], slices[other][minute])
    return None


def _late(minute: SliceMinute) -> tuple[float, float]:
    return minute.first_tokens - (minute.timely_first_tokens or 0.0), minute.first_tokens
