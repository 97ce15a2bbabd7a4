"""What a decode step costs, as a formula of eight numbers.

    T    = o + g + e B + v KV + d/k d0 + d d1     N = B (1 + d)     at depth 0 times 1 + tau
    g(N) = (m^4 + (c N)^4)^(1/4)
    g    = (1 - phi) g(N) + phi g(N + q)          phi = p / q

d is the number of drafts per sequence that a step of depth k really has: k from a draft model, and next to
none from an n-gram drafter in free text, where drafting must not look as dear as in repetitive text. The
blend g of memory-bound m and compute-bound c N, the tax tau of an engine that could draft and does not, and
the share phi of the steps that read a chunk of q prompt tokens are those of design/tuning.md, section 5;
p are the prompt tokens of a mean step, e is a term per request. The model carries a measured window to
another batch, context, share of drafts or of prompts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specfleet.tuning.windows import MOST_CHUNK, Window, Windows

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Place:
    """A depth at a batch, with what the model needs to evaluate it there: see `windows.Window`.

    ``loaded`` False: in an engine that was started without a proposer, which pays no tax at depth 0.
    """

    batch: float
    tokens: float
    depth: int
    cached: float
    prompts: float = 0.0
    chunk: float = MOST_CHUNK
    loaded: bool = True

    @property
    def log_width(self) -> float:
        """ln(N / B): tokens of one sequence in the step."""
        return math.log(self.tokens / self.batch)


# Of the fastest window: o, m, c, e, v, d0, d1; the tax is a share itself. Its mean is .05 and it may be .2.
_SHARES = (0.08, 0.72, 1 / 24, 0.01, 0.05, 0.03, 0.02, 0.02)
_SHARE_SD = (1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.3)

_M, _C, _TAX = 1, 2, 7
_KNOWN_C_SD = 0.35
_NO_TAX, _NO_TAX_SD = 1e-6, 0.1


@dataclass(frozen=True, slots=True)
class Prior:
    """Where the eight numbers start, in seconds (the tax: a share), and the sd of their logarithms."""

    seconds: tuple[float, ...]
    sd: tuple[float, ...]


def prior_from(windows: Windows, knee_tokens: float | None, taxed: bool) -> Prior:
    """Guess from the fastest window.

    ``knee_tokens``: m / c of known hardware; None: it may be anywhere. ``taxed``: a proposer is loaded at
    depth 0.
    """
    fastest = min(windows, key=lambda w: w.seconds)
    # v is per cached token: at the fastest window's context it has its share.
    scale = (1.0, 1.0, 1.0, 1.0, 1.0 / max(fastest.cached, 1.0), 1.0, 1.0, 1.0 / fastest.seconds)
    shares, sd = list(_SHARES), list(_SHARE_SD)
    if knee_tokens is not None:
        shares[_C], sd[_C] = shares[_M] / knee_tokens, _KNOWN_C_SD
    if not taxed:
        shares[_TAX], sd[_TAX] = _NO_TAX, _NO_TAX_SD
    seconds = tuple(share * fastest.seconds * by for share, by in zip(shares, scale, strict=True))
    return Prior(seconds, tuple(sd))


Numbers = Sequence[float] | Vector


def _parts(
    numbers: Numbers, batch: Any, tokens: Any, depth: Any, cached: Any, prompts: Any, chunk: Any
) -> list[Any]:
    """Give the parts of T by their numbers, without the tax, for one point or for arrays of points.

    The second and third add up to the blend.
    """
    o, m, c, e, v, d0, d1, _ = numbers
    chunk = np.maximum(chunk, prompts)
    reading = prompts / chunk
    memory, compute = m**4, (c * tokens) ** 4
    alone = (1.0 - reading) * (memory + compute) ** -0.75
    compute_beside = (c * (tokens + chunk)) ** 4
    beside = reading * (memory + compute_beside) ** -0.75
    drafts = tokens / batch - 1.0
    share = drafts / np.maximum(depth, 1)
    bound = memory * (alone + beside), compute * alone + compute_beside * beside
    return [o, *bound, e * batch, v * cached, share * d0, drafts * d1]


def rows_of(places: Sequence[Window | Place]) -> Vector:
    """Give what the formula needs: a row of batch, tokens, depth, cached, prompts, chunk and taxed for each.

    taxed: 1 at depth 0 with a proposer loaded.
    """
    rows = [(one.batch, one.tokens, one.depth, one.cached, one.prompts, one.chunk) for one in places]
    taxed = [float(one.depth == 0 and one.loaded) for one in places]
    return np.column_stack((np.array(rows, dtype=float), taxed))


def log_seconds(rows: Vector, numbers: Numbers) -> tuple[Vector, Vector]:
    """Give ln T of each of `rows_of`, and its slopes by the logarithms of the eight numbers."""
    *known, taxed = rows.T
    parts = np.column_stack(np.broadcast_arrays(*_parts(numbers, *known)))
    seconds = parts.sum(1)
    tax = taxed * numbers[-1]
    slopes = np.column_stack((parts / seconds[:, None], tax / (1.0 + tax)))
    return np.log(seconds) + np.log1p(tax), slopes
