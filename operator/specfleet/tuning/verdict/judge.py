"""One canary from its first minute to its verdict. Source: design/tuning.md, sections 10.2 and 11."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from specfleet.tuning.verdict.blocks import Block, SliceMinute
from specfleet.tuning.verdict.counts import CountEvidence
from specfleet.tuning.verdict.mixture import Evidence
from specfleet.tuning.verdict.noise import PRIOR, PRIOR_DISPERSION, Noise
from specfleet.tuning.verdict.trips import LONGEST, trip

WARM_UP_MINUTES = 3
LEAST_MINUTES = 20
FULL_MINUTES = 60
MIN_BLOCKS = 5
ACCEPT_ALPHA = 0.05  # of letting a regression of more than the margin pass before the full length
FALSE_ROLLBACKS_PER_WEEK = 0.5

Reference = Literal["control", "active"]


def alpha_per_guard(canaries_per_week: float = 20.0, guards: int = 5) -> float:
    """Share the false roll-backs of a week among canaries and guardrails: 20 x 5 gives .005."""
    return FALSE_ROLLBACKS_PER_WEEK / (canaries_per_week * guards)


@dataclass(frozen=True, slots=True)
class Guards:
    """Margins as shares, from the resource's guardrails; ``late_margin`` is that of late first tokens."""

    token_time_margin: float = 0.03
    completions_margin: float = 0.03
    failures_margin: float = 0.01
    late_margin: float = 0.03
    preemptions_factor: float = 2.0
    out_of_memory_allowed: int = 0
    alpha: float = alpha_per_guard()


@dataclass(frozen=True, slots=True)
class Minute:
    """What the slices did in one minute; a reference that had no data is left out.

    ``latency_noise`` and ``throughput_noise`` are those of the load band, ``dispersion`` that of late first
    tokens.
    """

    canary: SliceMinute
    references: Mapping[Reference, SliceMinute]
    latency_noise: Noise = PRIOR
    throughput_noise: Noise = PRIOR
    dispersion: float = PRIOR_DISPERSION


@dataclass(frozen=True, slots=True)
class Comparison:
    """Evidence of the canary against one reference."""

    latency: Evidence = field(default_factory=Evidence)
    throughput: Evidence = field(default_factory=Evidence)
    failures: CountEvidence = field(default_factory=CountEvidence)
    late: CountEvidence = field(default_factory=CountEvidence)
    recent: tuple[Block, ...] = ()

    @property
    def blocks(self) -> int:
        return self.latency.blocks + self.throughput.blocks


@dataclass(frozen=True, slots=True)
class Canary:
    """A canary's state between minutes. ``elapsed`` counts all minutes, ``seen`` those with data."""

    elapsed: int = 0
    seen: int = 0
    comparisons: Mapping[Reference, Comparison] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollBack:
    """The canary is worse. The reason is shown to users as it stands."""

    reason: str


@dataclass(frozen=True, slots=True)
class Accept:
    """The canary is not worse than the margins allow, or there is no sign of it after its full length."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """The full length passed without enough data: the canary ends, and nothing is held against it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """Go on."""


Verdict: TypeAlias = RollBack | Accept | NoVerdict | Undecided


def judge(canary: Canary, minute: Minute | None, guards: Guards) -> tuple[Canary, Verdict]:
    """Add one minute, and say whether the canary ends with it.

    ``minute`` None, or without a reference: no data. E-values stay as they are, and only the full length can
    end the canary, without a verdict: missing data accepts nothing and rolls nothing back.
    """
    canary = replace(canary, elapsed=canary.elapsed + 1)
    if minute is not None and minute.references:
        canary = _with(canary, minute, guards)
        if reason := _regression(canary, guards, minute.dispersion):
            return canary, RollBack(reason)
        if canary.seen >= LEAST_MINUTES and (reason := _bounded(canary, guards)):
            return canary, Accept(reason)
    if canary.elapsed >= FULL_MINUTES:
        return canary, _at_full_length(canary)
    return canary, Undecided()


def _with(canary: Canary, minute: Minute, guards: Guards) -> Canary:
    seen = canary.seen + 1
    comparisons = dict(canary.comparisons)
    for name, reference in minute.references.items():
        before = comparisons.get(name, Comparison())
        block = Block(minute.canary, reference)
        recent = (*before.recent, block)[-LONGEST:]
        after = before if seen <= WARM_UP_MINUTES else _tested(before, block, minute, guards)
        comparisons[name] = replace(after, recent=recent)
    return replace(canary, seen=seen, comparisons=comparisons)


def _tested(before: Comparison, block: Block, minute: Minute, guards: Guards) -> Comparison:
    after = before
    if (x := block.latency_log_ratio) is not None:
        after = replace(after, latency=after.latency.plus(x, minute.latency_noise))
    if (x := block.throughput_log_ratio) is not None:
        after = replace(after, throughput=after.throughput.plus(x, minute.throughput_noise))
    ours, theirs = block.canary, block.reference
    failures = after.failures.plus(
        (ours.failures, ours.completions + ours.failures),
        (theirs.failures, theirs.completions + theirs.failures),
        guards.failures_margin,
    )
    after = replace(after, failures=failures)
    if block.queues:
        return after
    if ours.timely_first_tokens is not None and theirs.timely_first_tokens is not None:
        late = after.late.plus(
            (ours.first_tokens - ours.timely_first_tokens, ours.first_tokens),
            (theirs.first_tokens - theirs.timely_first_tokens, theirs.first_tokens),
            guards.late_margin,
            minute.dispersion,
        )
        after = replace(after, late=late)
    return after


def _regression(canary: Canary, guards: Guards, dispersion: float) -> str | None:
    for name, comparison in canary.comparisons.items():
        allowed = guards.preemptions_factor, guards.out_of_memory_allowed
        if reason := trip(comparison.recent, *allowed, dispersion):
            return f"against {name}: {reason}"
        for what, evidence, margin in (
            ("time per output token", comparison.latency, guards.token_time_margin),
            ("time per completed request under a queue", comparison.throughput, guards.completions_margin),
        ):
            ratio = evidence.above(margin)
            if evidence.blocks >= MIN_BLOCKS and ratio > 1.0 / guards.alpha:
                return (
                    f"against {name}: {what} {evidence.mean:+.1%} over {evidence.blocks} min, "
                    f"{margin:.0%} is allowed; L {ratio:.3g} > {1.0 / guards.alpha:.3g}"
                )
        for what, counts in (
            ("failed requests", comparison.failures),
            ("first tokens late", comparison.late),
        ):
            if (ratio := counts.above()) > 1.0 / guards.alpha:
                return (
                    f"against {name}: more {what} in {counts.requests:.0f} requests; "
                    f"L {ratio:.3g} > {1.0 / guards.alpha:.3g}"
                )
    return None


def _bounded(canary: Canary, guards: Guards) -> str | None:
    """Give the reason to accept early: against every reference the mean is surely under the margin."""
    means = []
    for name, comparison in canary.comparisons.items():
        tests = [
            (comparison.latency, guards.token_time_margin),
            (comparison.throughput, guards.completions_margin),
        ]
        used = [(evidence, margin) for evidence, margin in tests if evidence.blocks >= MIN_BLOCKS]
        if not used or any(evidence.below(margin) <= 1.0 / ACCEPT_ALPHA for evidence, margin in used):
            return None
        means.append(f"{used[0][0].mean:+.1%} against {name}")
    return f"surely under the margin after {canary.seen} min: {', '.join(means)}" if means else None


def _at_full_length(canary: Canary) -> Verdict:
    fewest = min((one.blocks for one in canary.comparisons.values()), default=0)
    if fewest < MIN_BLOCKS or canary.seen < LEAST_MINUTES:
        return NoVerdict(f"{canary.seen} min of data and {fewest} comparable blocks in {canary.elapsed} min")
    return Accept(f"no regression in {canary.seen} min of data")
