"""What a decode step costs, as a formula of seven numbers.

    T = o + (m^4 + (c N)^4)^(1/4) + e B + v KV + d/k d0 + d d1     N = B (1 + d)

d is the number of drafts per sequence that a step of depth k really has: k from a draft model, and next to
none from an n-gram drafter in free text, where drafting must not look as dear as in repetitive text. The
blend of memory-bound m and compute-bound c N is that of design/tuning.md, section 5; e is a term per request.
The model carries a measured window to another batch, context or share of drafts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specfleet.tuning.windows import Windows

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Place:
    """A depth at a batch, with what the model needs to evaluate it there."""

    batch: float
    tokens: float
    depth: int
    cached: float

    @property
    def log_width(self) -> float:
        """ln(N / B): tokens of one sequence in the step."""
        return math.log(self.tokens / self.batch)


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


Numbers = Sequence[float] | Vector


def _parts(numbers: Numbers, batch: Any, tokens: Any, depth: Any, cached: Any) -> tuple[Any, ...]:
    """Give the parts of T by their numbers, for one point or for arrays of points.

    The second and third add up to the blend.
    """
    o, m, c, e, v, d0, d1 = numbers
    memory, compute = m**4, (c * tokens) ** 4
    blend = (memory + compute) ** 0.75
    drafts = tokens / batch - 1.0
    share = drafts / np.maximum(depth, 1)
    return o, memory / blend, compute / blend, e * batch, v * cached, share * d0, drafts * d1


def log_seconds_of(windows: Windows, numbers: Numbers) -> tuple[Vector, Vector]:
    """Give ln T of each window and its slopes by the logarithms of the seven numbers."""
    rows = np.array([(w.batch, w.tokens, w.depth, w.cached) for w in windows], dtype=float)
    parts = np.column_stack(np.broadcast_arrays(*_parts(numbers, *rows.T)))
    seconds = parts.sum(1)
    return np.log(seconds), parts / seconds[:, None]


def log_seconds_at(place: Place, numbers: Sequence[float]) -> tuple[float, Vector]:
    """Give the same at one place."""
    parts = _parts(numbers, place.batch, place.tokens, place.depth, place.cached)
    seconds = sum(parts)
    return math.log(seconds), np.array(parts) / seconds
