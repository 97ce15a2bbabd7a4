"""What a pool measured in the last pass, for status and for the reasons of decisions. None: no data.

Sums over pods come first, ratios after (trap P13). Source: design/tuning.md, section 3.3.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from specfleet.tuning.evidence import Evidence, Usable
from specfleet.tuning.interval import pooled
from specfleet.tuning.memory import Memory


@dataclass(frozen=True, slots=True)
class Figures:
    """Times in seconds, shares 0..1. ``accepted_length``: tokens per decode step, bonus token included."""

    sampled_at: float
    coverage: float
    acceptance_rate: float | None = None
    accepted_length: float | None = None
    survival: tuple[float, ...] = ()
    mean_depth: float | None = None
    token_seconds: float | None = None
    first_token_p50: float | None = None
    first_token_p95: float | None = None
    queue_seconds: float | None = None
    kv_headroom: float | None = None
    running: float | None = None
    output_tokens_per_second: float | None = None
    completions_per_second: float | None = None
    drafted: bool | None = None


def figures(evidence: Evidence, used: Usable, memory: Memory) -> Figures | None:
    """Measure one pass; None: no pod gave an interval."""
    if not used.intervals:
        return None
    counts = pooled(interval.counts for interval in used.intervals)
    usages = [interval.kv_usage for interval in used.intervals if interval.kv_usage is not None]
    running = [interval.running for interval in used.intervals if interval.running is not None]
    sequence_steps, steps = counts.all_sequence_steps, counts.all_steps
    accepted = sum(counts.accepted_positions.values())
    assumed = any(interval.positions_assumed for interval in used.intervals)
    return Figures(
        sampled_at=max(interval.end for interval in used.intervals),
        coverage=evidence.coverage,
        acceptance_rate=_ratio(counts.accepted_tokens, counts.draft_tokens),
        accepted_length=1.0 + accepted / sequence_steps
        if sequence_steps
        else _ratio(counts.decode_tokens, counts.inter_token_events),
        survival=memory.survival.by_position() if steps and not assumed else (),
        mean_depth=sum(d * n for d, n in counts.steps.items()) / steps if steps else None,
        token_seconds=_ratio(counts.inter_token_seconds, counts.decode_tokens),
        first_token_p50=quantile(counts.first_token_buckets, 0.5),
        first_token_p95=quantile(counts.first_token_buckets, 0.95),
        queue_seconds=_ratio(counts.queue_seconds, counts.queued_requests),
        kv_headroom=1.0 - max(usages) if usages else None,
        running=sum(running) / len(running) if running else None,
        output_tokens_per_second=_rate(used, "generation_tokens"),
        completions_per_second=_rate(used, "completions"),
        drafted=counts.draft_tokens > 0 if counts.draft_tokens is not None and steps else None,
    )


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Read a quantile from cumulative buckets, linear inside one; None without observations.

    For status only: it cannot pass the largest finite bound, and below the first it is a guess (trap P6).
    """
    total = buckets.get(math.inf, 0.0)
    if total <= 0.0:
        return None
    below, lower = 0.0, 0.0
    for bound in sorted(buckets):
        if buckets[bound] >= share * total:
            inside = buckets[bound] - below
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (share * total - below) / inside if inside > 0.0 else bound
        below, lower = buckets[bound], bound
    return lower


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below is not None and below > 0 else None


def _rate(used: Usable, field: str) -> float | None:
    """Per second, each pod by its own interval."""
    values = [(getattr(i.counts, field), i.seconds) for i in used.intervals]
    known = [value / seconds for value, seconds in values if value is not None]
    return sum(known) if known else None
