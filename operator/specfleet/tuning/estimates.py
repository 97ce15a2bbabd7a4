"""The objective: tokens per second of one request at a batch and a depth, J = E_k / T(B, k).

Source: design/tuning.md, section 6. The baseline of this release is depth 0, measured on the same pods.
"""

from dataclasses import dataclass

from specfleet.tuning.cost import ENOUGH_STEPS, StepCost
from specfleet.tuning.survival import Survival

# At depth 0 nothing is drafted, so a return of easy text would go unseen: soft-off must win by that much.
BLINDNESS = 0.02
DEEPEST = 16  # limit of the API


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is known now. ``throughput``: requests queue, so nothing but J counts.

    ``cautious`` takes drafts at their lower quantile, where an unseen position counts nothing.
    """

    survival: Survival
    cost: StepCost
    throughput: bool = False
    cautious: bool = True

    def measured(self, batch: float, depth: int) -> bool:
        """Say whether a depth was tried near this batch, or lies between two that were."""
        return self.survival.known(depth) and (
            self._timed(batch, depth)
            or (
                any(self._timed(batch, lower) for lower in range(depth))
                and any(self._timed(batch, higher) for higher in range(depth + 1, DEEPEST + 1))
            )
        )

    def _timed(self, batch: float, depth: int) -> bool:
        return self.cost.steps_near(batch, depth) >= ENOUGH_STEPS

    def seconds(self, batch: float, depth: int) -> float:
        """T(B, k) with the drafts that such a depth brings.

        A step that verifies drafts does all that a step without them does. Where depth 0 was measured slower
        than another depth the machine was busy then, and that must not count against depth 0.
        """
        if depth > 0:
            return self._seconds(batch, depth)
        others = (k for k in range(1, DEEPEST + 1) if self._timed(batch, k))
        return min(self._seconds(batch, k) for k in (0, *others))

    def _seconds(self, batch: float, depth: int) -> float:
        return self.cost.seconds(batch, batch * (1.0 + self.survival.drafts_per_step(depth)), depth)

    def rate(self, batch: float, depth: int) -> float:
        """J(k | B) as expected: for figures and gains."""
        return self.survival.tokens_per_step(depth) / self.seconds(batch, depth)

    def score(self, batch: float, depth: int, current: int) -> float:
        """J(k | B) for choosing: drafts at their 20 % quantile, depth 0 less its blindness if new."""
        if self.cautious:
            score = self.survival.cautious_tokens_per_step(depth) / self.seconds(batch, depth)
        else:
            score = self.rate(batch, depth)
        return score / (1.0 + BLINDNESS) if depth == 0 < current and not self.throughput else score
