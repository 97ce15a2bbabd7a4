"""Survival: how many drafted tokens come and are accepted in one decode step, by position.

Counts are divided by the decode steps that were allowed to reach a position, so that a drafter that often
proposes nothing (n-gram) is not taken for a good one (trap E4), and depths may differ from row to row.
Source: design/tuning.md, section 4; the exact denominators replace its correction eta.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from specfleet.tuning.interval import Counts

HALF_LIFE_SECONDS = 120.0
IDLE_HALF_LIFE_SECONDS = 600.0  # without traffic nothing is learnt; it is forgotten within half an hour
DESIGN_EFFECT = 2.0  # drafts of one request are correlated
MIN_SEQUENCE_STEPS = 60.0
MOST_OF_INTERVAL = 1500.0  # one interval counts as that many steps of a sequence at most
# An unseen position: at most .95 of the one before, and as it falls so far; .98 for what deep drafts swallow.
EXTRAPOLATION = 0.95
SWALLOWED = 0.98
PRIOR_SHARE = 0.60  # S_1 where nothing is known


@dataclass(frozen=True, slots=True)
class Survival:
    """Forgotten sums by position (from 1): steps of a sequence at that depth or deeper, drafted, accepted."""

    reached: Mapping[int, float] = field(default_factory=dict)
    drafted: Mapping[int, float] = field(default_factory=dict)
    accepted: Mapping[int, float] = field(default_factory=dict)

    def forgotten(self, seconds: float, traffic: bool) -> "Survival":
        """Let everything fade by the time that has passed."""
        return self.faded(seconds, HALF_LIFE_SECONDS if traffic else IDLE_HALF_LIFE_SECONDS)

    def faded(self, seconds: float, half_life: float) -> "Survival":
        return self._scaled(0.5 ** (seconds / half_life))

    def _scaled(self, factor: float) -> "Survival":
        return Survival(
            *(
                {i: v * factor for i, v in part.items()}
                for part in (self.reached, self.drafted, self.accepted)
            )
        )

    def plus(self, counts: Counts) -> "Survival":
        """Add one interval, pooled over pods; a large one counts no more than `MOST_OF_INTERVAL`."""
        deepest = max(counts.sequence_steps, default=0)
        reached = {
            i: sum(n for depth, n in counts.sequence_steps.items() if depth >= i)
            for i in range(1, deepest + 1)
        }
        new = Survival(reached, counts.draft_positions, counts.accepted_positions).limited(MOST_OF_INTERVAL)
        return Survival(
            _sum(self.reached, new.reached),
            _sum(self.drafted, new.drafted),
            _sum(self.accepted, new.accepted),
        )

    def limited(self, most: float) -> "Survival":
        """Give the same shares with the weight of at most ``most`` steps."""
        first = self.reached.get(1, 0.0)
        return self._scaled(most / first) if first > most else self

    def known(self, depth: int) -> bool:
        """Say whether every position up to ``depth`` has been seen often enough."""
        return all(self.reached.get(i, 0.0) >= MIN_SEQUENCE_STEPS for i in range(1, depth + 1))

    def accepted_share(self, position: int) -> float:
        """Accepted tokens at a position per decode step that could reach it; extrapolated if unseen."""
        return self._share(self.accepted, position, PRIOR_SHARE, SWALLOWED)

    def drafted_share(self, position: int) -> float:
        """Drafted tokens at a position per decode step that could reach it; extrapolated if unseen."""
        return self._share(self.drafted, position, 1.0, 1.0)

    def tokens_per_step(self, depth: int) -> float:
        """E_k, bonus token included."""
        return 1.0 + sum(self.accepted_share(i) for i in range(1, depth + 1))

    def uncertainty(self, depth: int, other: int) -> float:
        """Standard deviation of ln(E_depth / E_other), positions in step with each other.

        A position that was never reached is as uncertain as it is large.
        """
        one, two = self.tokens_per_step(depth), self.tokens_per_step(other)
        return sum(
            self.error(i) * abs((i <= depth) / one - (i <= other) / two)
            for i in range(1, max(depth, other) + 1)
        )

    def error(self, position: int) -> float:
        """Standard deviation of `accepted_share`."""
        share, n = self.accepted_share(position), max(self.reached.get(position, 0.0), 1.0)
        return min(share, math.sqrt(DESIGN_EFFECT * (share * (1.0 - share) + 1.0 / n) / n))

    def drafts_per_step(self, depth: int) -> float:
        """Drafted tokens of one sequence in one decode step at a depth."""
        return sum(self.drafted_share(i) for i in range(1, depth + 1))

    def by_position(self) -> tuple[float, ...]:
        """S_i = accepted / drafted at each position seen, for status."""
        return tuple(
            min(1.0, self.accepted.get(i, 0.0) / self.drafted[i])
            for i in sorted(self.drafted)
            if self.drafted[i] >= 1.0
        )

    def _share(self, part: Mapping[int, float], position: int, unseen: float, fading: float) -> float:
        n = self.reached.get(position, 0.0)
        if n >= MIN_SEQUENCE_STEPS:
            return min(1.0, part.get(position, 0.0) / n)
        if position == 1:
            return unseen
        before = self._share(part, position - 1, unseen, fading)
        further = self._share(part, position - 2, unseen, fading) if position > 2 else 1.0
        return before * min(EXTRAPOLATION, before / further if further > 0 else 0.0) * fading


def _sum(one: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
    return {i: one.get(i, 0.0) + other.get(i, 0.0) for i in sorted(set(one) | set(other))}
