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

_M, C, _TAX = 1, 2, 7
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
        shares[C], sd[C] = shares[_M] / knee_tokens, _KNOWN_C_SD
    if not taxed:
        shares[_TAX], sd[_TAX] = _NO_TAX, _NO_TAX_SD
    seconds = tuple(share * fastest.seconds * by for share, by in zip(shares, scale, strict=True))
    return Prior(seconds, tuple(sd))


Numbers = Sequence[float] | Vector


@dataclass(frozen=True, slots=True)
class Rows:
    """What the formula needs of places, worked out once for all numbers that a fit tries.

    ``wide`` are the tokens of a step that reads a chunk as well, ``reading`` is phi, ``share`` d / k.
    ``taxed`` is 1 at depth 0 with a proposer loaded.
    """

    batch: Vector
    tokens: Vector
    wide: Vector
    cached: Vector
    reading: Vector
    drafts: Vector
    share: Vector
    taxed: Vector


def rows_of(places: Sequence[Window | Place]) -> Rows:
    """Prepare places for `log_seconds`."""
    columns = [(one.batch, one.tokens, one.depth, one.cached, one.prompts, one.chunk) for one in places]
    batch, tokens, depth, cached, prompts, chunk = np.array(columns, dtype=float).T.copy()
    chunk = np.maximum(chunk, prompts)
    drafts = tokens / batch - 1.0
    return Rows(
        batch=batch,
        tokens=tokens,
        wide=tokens + chunk,
        cached=cached,
        reading=prompts / chunk,
        drafts=drafts,
        share=drafts / np.maximum(depth, 1),
        taxed=np.array([float(one.depth == 0 and one.loaded) for one in places]),
    )


def _parts(rows: Rows, numbers: Numbers) -> Vector:
    """Give the parts of T by their numbers, without the tax: a row for each place.

    The second and third add up to the blend.
    """
    o, m, c, e, v, d0, d1, _ = numbers
    memory, compute, compute_beside = m**4, _to_the_fourth(c * rows.tokens), _to_the_fourth(c * rows.wide)
    alone = (1.0 - rows.reading) / _three_quarters(memory + compute)
    beside = rows.reading / _three_quarters(memory + compute_beside)
    parts = np.empty((len(rows.batch), len(numbers) - 1))
    parts[:, 0] = o
    parts[:, 1] = memory * (alone + beside)
    parts[:, 2] = compute * alone + compute_beside * beside
    parts[:, 3] = e * rows.batch
    parts[:, 4] = v * rows.cached
    parts[:, 5] = rows.share * d0
    parts[:, 6] = rows.drafts * d1
    return parts


# Roots and squares, since general powers take most of a fit's time.
def _to_the_fourth(values: Vector) -> Vector:
    return np.square(np.square(values))


def _three_quarters(values: Vector) -> Vector:
    root: Vector = np.sqrt(values)
    return root * np.sqrt(root)


def prompts_share(rows: Rows, numbers: Numbers) -> Vector:
    """Say which share of each T of `rows_of` goes into reading prompts: the slope of ln T by ln p."""
    _, m, c, *_ = numbers
    alone, beside = (np.sqrt(np.sqrt(m**4 + _to_the_fourth(c * n))) for n in (rows.tokens, rows.wide))
    share: Vector = rows.reading * (beside - alone) / _parts(rows, numbers).sum(1)
    return share


def log_seconds(rows: Rows, numbers: Numbers) -> tuple[Vector, Vector]:
    """Give ln T of each of `rows_of`, and its slopes by the logarithms of the eight numbers."""
    parts = _parts(rows, numbers)
    seconds = parts.sum(1)
    tax = rows.taxed * numbers[-1]
    slopes = np.empty((len(seconds), len(numbers)))
    np.divide(parts, seconds[:, None], out=slopes[:, :-1])
    slopes[:, -1] = tax / (1.0 + tax)
    return np.log(seconds) + np.log1p(tax), slopes
