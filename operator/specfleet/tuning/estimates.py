"""The objective: tokens per second of one request at a batch and a depth, J = E_k / T(B, k).

Source: design/tuning.md, section 6. The baseline of this release is depth 0, measured on the same pods.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from specfleet.tuning.cost import ENOUGH_STEPS, Point, StepCost
from specfleet.tuning.survival import Survival
from specfleet.tuning.windows import beside

# At depth 0 nothing is drafted, so a return of easy text would go unseen: to draft is worth that much.
BLINDNESS = 0.02
CAUTION = 0.84  # a gain has to exceed that many of its own standard deviations: its 20 % quantile counts


@dataclass(frozen=True, slots=True)
class Gain:
    """ln(J_new / J_old) as expected, and its standard deviation."""

    expected: float
    sd: float

    @property
    def cautious(self) -> float:
        return self.expected - CAUTION * self.sd

    def chance_over(self, least: float) -> float:
        """Probability that the gain is larger than ``least``."""
        return 0.5 * math.erfc((least - self.expected) / (math.sqrt(2.0) * max(self.sd, 1e-9)))


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is known now. ``throughput``: requests queue, so nothing but J counts.

    ``rho``: prompt tokens read for a generated one. ``cautious`` counts a gain less its own uncertainty.
    """

    survival: Survival
    cost: StepCost
    rho: float = 0.0
    throughput: bool = False
    cautious: bool = True
    # One pass asks for the same few numbers thousands of times.
    _points: dict[tuple[float, int], Point] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _tokens: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _doubts: dict[tuple[int, int], float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def measured(self, batch: float, depth: int) -> bool:
        """Say whether a depth was tried near this batch, or lies between two that were."""
        return self.survival.known(depth) and (
            self.timed(batch, depth)
            or (
                any(self.timed(batch, lower) for lower in self.cost.depths if lower < depth)
                and any(self.timed(batch, higher) for higher in self.cost.depths if higher > depth)
            )
        )

    def timed(self, batch: float, depth: int) -> bool:
        """Say whether steps of a depth were measured often enough near this batch."""
        return self.cost.steps_near(batch, depth) >= ENOUGH_STEPS

    def seconds(self, batch: float, depth: int) -> float:
        """T(B, k) with the drafts that such a depth brings, and the prompts that its tokens ask for."""
        return self.cost.seconds(*self._point(batch, depth))

    def prepare(self, batches: Collection[float], depths: Collection[int], *, without: bool = False) -> None:
        """Predict step times of many cells at once: faster than one by one.

        ``without``: also of an engine that was started without a proposer.
        """
        points = [self._point(batch, depth) for batch in batches for depth in depths]
        self.cost.prepare([*points, *(self._point_without(batch) for batch in batches if without)])

    def _point(self, batch: float, depth: int) -> Point:
        if (batch, depth) not in self._points:
            tokens = batch * (1.0 + self.survival.drafts_per_step(depth))
            prompts = beside(batch) * batch * self._tokens_per_step(depth) * self.rho
            self._points[batch, depth] = Point(batch, tokens, depth, prompts)
        return self._points[batch, depth]

    def _tokens_per_step(self, depth: int) -> float:
        if depth not in self._tokens:
            self._tokens[depth] = self.survival.tokens_per_step(depth)
        return self._tokens[depth]

    def _doubt(self, depth: int, other: int) -> float:
        """Standard deviation of ln(E_depth / E_other)."""
        if (depth, other) not in self._doubts:
            self._doubts[depth, other] = self.survival.uncertainty(depth, other)
        return self._doubts[depth, other]

    def seconds_without(self, batch: float) -> float:
        """T(B, 0) of an engine that was started without a proposer."""
        return self.cost.seconds(*self._point_without(batch))

    def without(self, batch: float, depths: Collection[int]) -> Gain:
        """Compare an engine that was started without a proposer with the best of ``depths`` of this one."""
        best = max(depths, key=lambda depth: self.rate(batch, depth))
        expected = -math.log(self.seconds_without(batch) * self.rate(batch, best))
        time = self.cost.uncertainty(self._point_without(batch), self._point(batch, best))
        return Gain(expected, math.hypot(time, self._doubt(0, best)))

    def _point_without(self, batch: float) -> Point:
        return self._point(batch, 0)._replace(loaded=False)

    def least_depth(self, batch: float) -> int:
        """Give the depth to go down to under pressure: 1, unless depth 0 surely ends requests sooner.

        Only that frees the KV cache; a step at depth 1 takes one token more of it for a moment. Source:
        design/tuning.md, section 2, "Peak policy".
        """
        return int(self.gain(batch, 0, 1).cautious <= 0.0)

    def rate(self, batch: float, depth: int) -> float:
        """J(k | B) as expected: for figures."""
        return self._tokens_per_step(depth) / self.seconds(batch, depth)

    def gain(self, batch: float, depth: int, current: int) -> Gain:
        """Compare two depths at a batch: what the new one brings, and how sure that is."""
        expected = math.log(self.rate(batch, depth) / self.rate(batch, current))
        time = self.cost.uncertainty(self._point(batch, depth), self._point(batch, current))
        return Gain(expected, math.hypot(time, self._doubt(depth, current)))

    def score(self, batch: float, depth: int, current: int) -> float:
        """ln(J_depth / J_current) for choosing: less its uncertainty, and depth 0 less its blindness."""
        if depth == current:
            return 0.0
        gain = self.gain(batch, depth, current)
        sight = 0.0 if self.throughput else math.log1p(BLINDNESS) * ((depth > 0) - (current > 0))
        # Who queues also waits for the room that a shallower depth leaves, in a step and in the KV cache.
        cautious = self.cautious and not (self.throughput and depth < current)
        return (gain.cautious if cautious else gain.expected) + sight
