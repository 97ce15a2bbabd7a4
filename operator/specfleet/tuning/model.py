"""What a decode step costs, as a formula of seven numbers.

    T = o + (m^4 + (c N)^4)^(1/4) + e B + v KV + 1[k > 0] (d0 + k d1)     N = B (1 + drafts per sequence)

The blend of memory-bound m and compute-bound c N is that of design/tuning.md, section 5; e is a term per
request. It carries a measured window to another batch, context or share of drafts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specfleet.tuning.windows import Window, Windows

Vector = NDArray[np.float64]

_SHARES = (0.08, 0.72, 1 / 24, 0.01, 0.05, 0.03, 0.02)  # of the fastest window; o, m, c, e, v, d0, d1
_SHARE_SD = (1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0)

_M, _C = 1, 2
_KNOWN_C_SD = 0.35


@dataclass(frozen=True, slots=True)
class Prior:
    """Where the seven numbers start, in seconds, and how far they may be off: sd of their logarithms."""

    seconds: tuple[float, ...]
    sd: tuple[float, ...]


def prior_from(windows: Windows, knee_tokens: float | None) -> Prior:
    """Guess from the fastest window. ``knee_tokens``: m / c of known hardware; None: it may be anywhere."""
    fastest = min(windows, key=lambda w: w.seconds)
    # v is per cached token: at the fastest window's context it has its share.
    scale = (1.0, 1.0, 1.0, 1.0, 1.0 / max(fastest.cached, 1.0), 1.0, 1.0)
    shares, sd = list(_SHARES), list(_SHARE_SD)
    if knee_tokens is not None:
        shares[_C], sd[_C] = shares[_M] / knee_tokens, _KNOWN_C_SD
    seconds = tuple(share * fastest.seconds * by for share, by in zip(shares, scale, strict=True))
    return Prior(seconds, tuple(sd))


@dataclass(frozen=True, slots=True)
class Points:
    """Where the formula is evaluated, one entry a point."""

    batch: Vector
    tokens: Vector
    depth: Vector
    cached: Vector

    @classmethod
    def of(cls, windows: Windows) -> "Points":
        rows = np.array([(w.batch, w.tokens, w.depth, w.cached) for w in windows], dtype=float)
        return cls(*rows.reshape(-1, 4).T)

    @classmethod
    def at(cls, batch: float, tokens: float, depth: int, cached: float) -> "Points":
        return cls.of((Window(0.0, depth, batch, tokens, 1.0, 1.0, cached),))


def log_seconds(logs: Vector, points: Points) -> tuple[Vector, Vector]:
    """Give ln T at each point and its slopes by the logarithms of the seven numbers."""
    o, m, c, e, v, d0, d1 = np.exp(logs)
    compute = (c * points.tokens) ** 4
    blend = (m**4 + compute) ** 0.25
    drafts = (points.depth > 0).astype(float)
    parts = np.empty((len(points.batch), len(logs)))
    parts[:, 0] = o
    parts[:, 1] = m**4 / blend**3
    parts[:, 2] = compute / blend**3
    parts[:, 3] = e * points.batch
    parts[:, 4] = v * points.cached
    parts[:, 5] = drafts * d0
    parts[:, 6] = drafts * points.depth * d1
    # The second and third part add up to the blend.
    seconds = parts.sum(1)
    return np.log(seconds), parts / seconds[:, None]
