"""Acceptance jump: traffic has changed so much that what was learnt about acceptance is of no use.

A one-sided cumulative sum of the distance from a slow reference. Source: design/tuning.md, section 12, with
two changes: the share is taken per decode step (an n-gram drafter changes how often it proposes), and the
design effect is 4, since one user's steps within one interval belong to two or three requests.
"""

import math
from dataclasses import dataclass, replace

MIN_SEQUENCE_STEPS = 150.0
DESIGN_EFFECT = 4.0
REFERENCE_SHARE = 0.05
FREE_DISTANCE = 1.5
LIMIT = 5.0
MOST_AFTER_JUMP = 600.0  # steps of a sequence that the interval of a jump counts as: it holds old traffic too


@dataclass(frozen=True, slots=True)
class JumpWatch:
    """``pending_*`` collect intervals until they are enough for one comparison."""

    reference: float | None = None
    sum: float = 0.0
    pending_accepted: float = 0.0
    pending_reached: float = 0.0

    def after(self, accepted: float, reached: float) -> "tuple[JumpWatch, bool]":
        """Add an interval's first position; True: a jump, and the watch starts over from here."""
        accepted += self.pending_accepted
        reached += self.pending_reached
        if reached < MIN_SEQUENCE_STEPS:
            return replace(self, pending_accepted=accepted, pending_reached=reached), False
        share = accepted / reached
        if self.reference is None:
            return JumpWatch(share), False
        noise = math.sqrt(0.24 * DESIGN_EFFECT / reached) + 0.025
        total = max(0.0, self.sum + abs(share - self.reference) / noise - FREE_DISTANCE)
        if total > LIMIT:
            return JumpWatch(share), True
        return JumpWatch(self.reference + REFERENCE_SHARE * (share - self.reference), total), False
