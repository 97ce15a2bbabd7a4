"""How much equal slices differ from minute to minute, from A/A data of one load band.

Control against control, or active against active. Never the canary's own stream: there a regression inflates
its noise and hides. Source: design/tuning.md, section 10.2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LAGS = 8
SAFETY = 1.3  # on h: an hour of A/A data knows it badly
MIN_BLOCKS = 30  # half of the hour that a pool spends in Baselining
_LEAST_SIGMA = 0.01  # no two slices agree better than that for an hour


@dataclass(frozen=True, slots=True)
class Noise:
    """``sigma``: standard deviation of a block's log-ratio; ``h``: factor for autocorrelation and safety."""

    sigma: float
    h: float = 1.0

    @property
    def scale(self) -> float:
        return self.h * self.sigma


# Small pools without A/A data. Source: design/tuning.md, section 8; the dispersion is that of equal simulated
# pods under moderate load.
PRIOR = Noise(sigma=0.15)
PRIOR_DISPERSION = 30.0


def noise_of(log_ratios: Sequence[float | None]) -> Noise | None:
    """Estimate the noise from consecutive A/A blocks, None where a minute had no usable block.

    Moments are taken about zero: equal slices have no true difference, so one that lasts is noise of the
    comparison too. None: fewer than 30 blocks.
    """
    present = [x for x in log_ratios if x is not None]
    if len(present) < MIN_BLOCKS:
        return None
    variance = max(sum(x * x for x in present) / len(present), _LEAST_SIGMA**2)
    inflation = 1.0 + 2.0 * sum(
        (1.0 - lag / (LAGS + 1)) * _product_mean(log_ratios, lag) / variance for lag in range(1, LAGS + 1)
    )
    return Noise(math.sqrt(variance), SAFETY * math.sqrt(max(1.0, inflation)))


def _product_mean(values: Sequence[float | None], lag: int) -> float:
    pairs = zip(values, values[lag:], strict=False)
    products = [early * late for early, late in pairs if early is not None and late is not None]
    return sum(products) / len(products) if products else 0.0


def dispersion_of(blocks: Sequence[tuple[float, float, float, float] | None]) -> float | None:
    """Estimate by how much counts of failures of equal slices vary more than coin flips; at least 1.

    Each consecutive block is (failures, requests) of one slice and of the other, None where one is missing.
    Requests that share a queue fail together, within a minute and from minute to minute: the factor is the
    variance of the standardised differences and what their autocorrelation adds. None: fewer than 30 blocks
    in which anything failed.
    """
    noise = noise_of([None if block is None else _standardised(*block) for block in blocks])
    return None if noise is None else max(1.0, noise.scale**2)


def _standardised(
    failures: float, requests: float, other_failures: float, other_requests: float
) -> float | None:
    total, share = failures + other_failures, requests / max(requests + other_requests, 1e-9)
    variance = total * share * (1.0 - share)
    return (failures - total * share) / math.sqrt(variance) if variance > 0.0 else None
