"""The paired mixture sequential e-value test: is the mean log-ratio of two slices above a margin?

A mixture of one-sided normals over the excess; by Ville's inequality it passes 1/alpha with probability at
most alpha, however often one looks, if the noise is known. Source: design/tuning.md, section 10.2.
"""

import math
from dataclasses import dataclass

from specfleet.tuning.verdict.noise import Noise

MIXTURE_SD = 0.10  # regressions that are looked for are of that size, in logs
_FAR_TAIL = -30.0  # below it exp(z^2/2) and Phi(z) leave the range of a double, their product does not


def likelihood_ratio(excess: float, standard_error: float) -> float:
    """Give L: how much better "the mean is above the margin" explains the data than "it is at the margin".

    ``excess`` is the mean of the log-ratios less the margin, ``standard_error`` h sigma / sqrt(n).
    Raises ValueError for a standard error that is not positive.
    """
    if not 0.0 < standard_error < math.inf:
        raise ValueError(f"a standard error must be positive and finite, got {standard_error}")
    spread = math.hypot(standard_error, MIXTURE_SD)
    z = excess * MIXTURE_SD / (standard_error * spread)
    return 2.0 * standard_error / spread * _tilted_normal(z)


def _tilted_normal(z: float) -> float:
    """exp(z^2 / 2) Phi(z)."""
    if z < _FAR_TAIL:
        return 1.0 / (-z * math.sqrt(2.0 * math.pi))
    return math.exp(min(z * z / 2.0, 700.0)) * 0.5 * math.erfc(-z / math.sqrt(2.0))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Sums over the blocks of one comparison: each weighs by its own load band's noise."""

    blocks: int = 0
    information: float = 0.0  # sum of 1 / (h sigma)^2
    score: float = 0.0  # sum of x / (h sigma)^2

    def plus(self, log_ratio: float, noise: Noise) -> "Evidence":
        weight = 1.0 / noise.scale**2
        return Evidence(self.blocks + 1, self.information + weight, self.score + weight * log_ratio)

    @property
    def mean(self) -> float:
        """Weighted mean of the log-ratios; 0 before the first block."""
        return self.score / self.information if self.blocks else 0.0

    def above(self, margin: float) -> float:
        """L for "the mean is above the margin" against "it is not"; 1 before the first block."""
        return likelihood_ratio(self.mean - margin, self.information**-0.5) if self.blocks else 1.0

    def below(self, margin: float) -> float:
        """L for "the mean is below the margin": above 1/alpha the upper bound of the mean is under it."""
        return likelihood_ratio(margin - self.mean, self.information**-0.5) if self.blocks else 1.0
