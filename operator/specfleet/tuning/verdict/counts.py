"""The test on counts: do requests of the canary fail more often than those of its reference?

Of the failures of a block, the canary's share would be its share of the requests; the alternative moves it
up. The e-value is the mean over a Beta prior on that move: with slices of equal size a beta-binomial. A
margin of some points enters as that many failures added to the reference. For every fixed move the expected
factor of a block is at most 1 for Poisson counts, hence for binomial ones, whatever the failure rate does
from block to block. Source: design/tuning.md, section 10.2.
"""

import math
from dataclasses import dataclass

MIN_REQUESTS = 200.0  # of both slices together
# Beta(4, 4) above 1/2: factors of 1.1 to 4 on the odds that a failure is the canary's.
_CONCENTRATION = 4.0
_POINTS = 64
_SHARES = tuple(0.5 + (i + 0.5) / (2 * _POINTS) for i in range(_POINTS))
_PRIOR = tuple(math.pow(u * (1.0 - u), _CONCENTRATION - 1.0) for u in _SHARES)
_WEIGHTS = tuple(weight / sum(_PRIOR) for weight in _PRIOR)


@dataclass(frozen=True, slots=True)
class CountEvidence:
    """``logs``: log-likelihood ratio of each alternative of the mixture."""

    requests: float = 0.0
    logs: tuple[float, ...] = (0.0,) * _POINTS

    def plus(
        self,
        canary: tuple[float, float],
        reference: tuple[float, float],
        margin: float,
        dispersion: float = 1.0,
    ) -> "CountEvidence":
        """Add a block: (failures, requests) of each slice, the margin as a share of requests.

        ``dispersion`` divides the evidence: by how much equal slices vary more than coin flips.
        """
        (failures, requests), (other_failures, other_requests) = canary, reference
        if requests <= 0.0 or other_requests <= 0.0:
            return self
        other_failures += margin * other_requests
        share = requests / (requests + other_requests)
        logs = tuple(
            log + (failures * _log_up(u, share) + other_failures * _log_down(u, share)) / dispersion
            for log, u in zip(self.logs, _SHARES, strict=True)
        )
        return CountEvidence(self.requests + requests + other_requests, logs)

    def above(self) -> float:
        """L for "the canary fails more often than margin and reference allow"; 1 under 200 requests."""
        if self.requests < MIN_REQUESTS:
            return 1.0
        return sum(
            weight * math.exp(min(log, 700.0)) for weight, log in zip(_WEIGHTS, self.logs, strict=True)
        )


def _log_up(u: float, share: float) -> float:
    """Log of the alternative's share of failures over the null's; ``u`` is the share among equal slices."""
    return math.log(u / (u * share + (1.0 - u) * (1.0 - share)))


def _log_down(u: float, share: float) -> float:
    return math.log((1.0 - u) / (u * share + (1.0 - u) * (1.0 - share)))
