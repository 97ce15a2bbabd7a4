"""Telling depths apart on a machine whose speed drifts.

ln T of a window = the model + the level of the machine at that moment + what the model misses of that depth
and batch + noise. The level is common to all depths and wanders, so a depth is in effect compared with the
mean of the spans right before and after its probe at the old depth (an A/B/A comparison), and the answer
knows its own uncertainty: large before there is an "after", and wherever the machine is restless.

It is a Gaussian regression with the model's numbers as its trend. Its prior scales are those of a shared
machine (10 % within minutes); neighbouring windows of one depth say how restless this one really is. Where
they differ by more than that can explain, the level has jumped there: the two sides are hardly compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specfleet.tuning.model import C, Place, Prior, Vector, log_seconds, prompts_share, rows_of
from specfleet.tuning.windows import Window, Windows

LEVEL_SD = 0.12
LEVEL_SECONDS = 480.0  # 10 % within two to four minutes
MISS_SD = 0.08  # of one depth; the design asks for 5 % on visited depths and 10 % one notch away
MISS_SECONDS = 2 * 3600.0
DRAFTING_MISS_SD = 0.05  # of any depth that drafts against depth 0, however little is drafted
BATCH_MISS_SD = 0.06  # common to the depths of one batch
WINDOW_SD = 0.01
STEP_SD = 0.15  # of single steps: a window of n steps has that over the root of n
NEIGHBOURHOOD = 0.35  # width in ln(batch) inside which windows speak for each other
WIDTH_SCALE = 0.7  # in ln(N / B): what the model misses with 3 drafts it misses partly with 2 and 5

_MOST_STEPS = 30
_STEP_LIMIT = 0.3
_CONVERGED = 0.1  # what a step would gain in log posterior; numbers that no window tells creep on for less
_ROUGHLY = 1.0
_STARTS = (0.0, -1.3, -2.6)  # ln c less its prior's: the knee of unknown hardware may lie far away
_ROUGH_INVERSE = 1.0 / 0.15**2  # sd of ln T, where windows count as if they had nothing in common
_PAIR_SECONDS = 90.0
_PAIR_BATCH = 0.1
_PRIOR_PAIRS = 4.0
_LEAST_RESTLESSNESS = 0.05
_OUTLIER = 3.0  # standard deviations
_JUMP_SECONDS = 3.0 * LEVEL_SECONDS  # as good as two machines


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of a step, and what a comparison with another depth at the same batch needs.

    ``log_width``: ln(N / B), ``drafts``: whether the depth drafts at all. ``told``: what the windows tell of
    what the model misses here, ``free``: what the model's numbers leave open; both so that the square of a
    difference of two of them is a variance of ln T.
    """

    seconds: float
    log_width: float
    drafts: bool
    told: Vector
    free: Vector


class Regression:
    """Fitted to windows; predicts ln seconds and differences between depths."""

    def __init__(self, windows: Windows, prior: Prior) -> None:
        self._rows = rows_of(windows)
        self._at = np.array([w.at for w in windows])
        self._log_batch = np.log([max(w.batch, 1.0) for w in windows])
        self._log_width = np.log([w.tokens / w.batch for w in windows])
        self._drafts = np.array([float(w.depth > 0) for w in windows])
        self._observed = np.log([w.seconds for w in windows])
        self._prior_logs = np.log(prior.seconds)
        self._prior_precision = np.diag(1.0 / np.square(prior.sd))
        self._begin(_ROUGH_INVERSE)
        self._descend(_ROUGH_INVERSE, _ROUGHLY)
        left = self._left_by(self._logs)
        prompts = prompts_share(self._rows, np.exp(self._logs)) * np.array([w.prompts_sd for w in windows])
        pairs = _pairs(windows, left, prompts)
        self._restless = _restlessness(pairs)
        jumps = [pair.at for pair in pairs if pair.ratio > _OUTLIER**2 * self._restless]
        self._level_at = self._at + _JUMP_SECONDS * np.searchsorted(sorted(jumps), self._at, side="right")
        noise = self._restless * (WINDOW_SD**2 + STEP_SD**2 / np.array([w.steps for w in windows]))
        noise = noise + np.square(prompts)
        covariance = self._covariance()
        self._inverse = _inverse_of(covariance, noise)
        self._begin(self._inverse)  # from where the rough fit ends it may be another optimum
        self._fit()
        spread = np.abs(self._left) / np.sqrt(np.diag(self._inverse)) / _OUTLIER
        if (spread > 1.0).any():
            noise = noise + np.maximum(spread**2 - 1.0, 0.0) / np.diag(self._inverse)
            self._inverse = _inverse_of(covariance, noise)
            self._fit()

    def _covariance(self) -> Vector:
        """Give the covariance of the windows' errors: they belong together in time, batch and drafts."""
        ages = np.abs(self._at[:, None] - self._at)
        near = _near(self._log_batch[:, None] - self._log_batch)
        alike = _alike(self._log_width[:, None] - self._log_width)
        drafting = np.outer(self._drafts, self._drafts)
        own = MISS_SD**2 * alike + DRAFTING_MISS_SD**2 * drafting
        own = BATCH_MISS_SD**2 + own * np.exp(-ages / MISS_SECONDS)
        covariance: Vector = self._level(self._level_at[:, None]) + near * own
        return covariance

    def _fit(self) -> None:
        self._descend(self._inverse, _CONVERGED)
        self._numbers = np.exp(self._logs)
        predicted, slopes = log_seconds(self._rows, self._numbers)
        self._left = self._inverse @ (self._observed - predicted)
        self._weighted = slopes.T @ self._inverse
        # Squares of the roots' images are the variances that the matrices give.
        self._root = np.linalg.cholesky(self._inverse)
        self._normal_root = np.linalg.cholesky(np.linalg.inv(self._weighted @ slopes + self._prior_precision))

    def _begin(self, inverse: Vector | float) -> None:
        """Set the numbers to the best of some places to start from."""
        starts = [self._prior_logs + shift * (np.arange(len(self._prior_logs)) == C) for shift in _STARTS]
        self._logs = min(starts, key=lambda logs: self._misfit(logs, inverse))

    def _misfit(self, logs: Vector, inverse: Vector | float) -> float:
        left, away = self._left_by(logs), logs - self._prior_logs
        return float(_weigh(left, inverse) @ left + away @ self._prior_precision @ away)

    def _left_by(self, logs: Vector) -> Vector:
        left: Vector = self._observed - log_seconds(self._rows, np.exp(logs))[0]
        return left

    def _descend(self, inverse: Vector | float, converged: float) -> None:
        """Damped Gauss-Newton on ln T to the optimum of the numbers.

        ``inverse`` of the covariance; a number: windows have nothing in common. ``converged``: the gain in
        log posterior that is not worth a step.
        """
        for _ in range(_MOST_STEPS):
            predicted, slopes = log_seconds(self._rows, np.exp(self._logs))
            weighted = _weigh(slopes.T, inverse)
            normal = weighted @ slopes + self._prior_precision
            away = self._logs - self._prior_logs
            gradient = weighted @ (self._observed - predicted) - self._prior_precision @ away
            step = np.linalg.solve(normal, gradient)
            self._logs = self._logs + np.clip(step, -_STEP_LIMIT, _STEP_LIMIT)
            if gradient @ step < converged:
                break

    def predict(self, places: Sequence[Place], now: float) -> list[Prediction]:
        """Predict T of each place at the machine's level of ``now``."""
        logs, slopes = log_seconds(rows_of(places), self._numbers)
        level = self._level(now + self._level_at.max() - self._at.max())
        own = self._own(places, now)
        seconds = np.exp(logs + (level + own) @ self._left)
        told = own @ self._root
        free = (slopes - own @ self._weighted.T) @ self._normal_root
        return [
            Prediction(float(seconds[i]), place.log_width, place.depth > 0, told[i], free[i])
            for i, place in enumerate(places)
        ]

    def difference_sd(self, one: Prediction, other: Prediction) -> float:
        """Give the standard deviation of ln(T_one / T_other), two depths at one batch."""
        told, free = one.told - other.told, one.free - other.free
        before = 2.0 * MISS_SD**2 * (1.0 - float(_alike(one.log_width - other.log_width)))
        before += DRAFTING_MISS_SD**2 * (one.drafts != other.drafts)
        return math.sqrt(max(0.0, before - float(told @ told) + float(free @ free)))

    def _level(self, at: Vector | float) -> Vector:
        """Covariance of each window's level with the level at other times."""
        close: Vector = np.exp(-np.abs(at - self._level_at) / LEVEL_SECONDS)
        return self._restless * LEVEL_SD**2 * close

    def _own(self, places: Sequence[Place], now: float) -> Vector:
        """Covariance of each window with what the model misses at each place, a row a place."""
        batch, width, drafts = np.array(
            [(math.log(max(one.batch, 1.0)), one.log_width, one.depth > 0) for one in places]
        ).T[:, :, None]
        alike, lasting = _alike(width - self._log_width), np.exp(-np.abs(now - self._at) / MISS_SECONDS)
        own = MISS_SD**2 * alike + DRAFTING_MISS_SD**2 * drafts * self._drafts
        found: Vector = _near(batch - self._log_batch) * (BATCH_MISS_SD**2 + own * lasting)
        return found


def _inverse_of(covariance: Vector, noise: Vector) -> Vector:
    return np.asarray(np.linalg.inv(covariance + np.diag(noise)), dtype=float)


def _weigh(values: Vector, inverse: Vector | float) -> Vector:
    return values * inverse if isinstance(inverse, float) else values @ inverse


def _near(distance: Vector) -> Vector:
    return np.exp(-np.square(distance / NEIGHBOURHOOD))


def _alike(distance: Vector | float) -> Vector:
    return np.exp(-np.square(np.divide(distance, WIDTH_SCALE)))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two windows of one depth in a row, at the same load. ``ratio``: of variance found to expected."""

    at: float
    ratio: float


def _pairs(windows: Windows, left: Vector, prompts: Vector) -> list[_Pair]:
    """``left``: what the model leaves of each window's ln T, ``prompts``: how well its prompts are known
    there. So prompts are no restlessness.
    """
    last: dict[int, tuple[Window, float, float]] = {}
    pairs = []
    rows = zip(windows, left.tolist(), np.square(prompts).tolist(), strict=True)
    for w, rest, doubt in sorted(rows, key=lambda one: one[0].at):
        before, its_rest, its_doubt = last.get(w.arm, (None, 0.0, 0.0))
        last[w.arm] = w, rest, doubt
        if before is None or w.at - before.at > _PAIR_SECONDS or not _same_load(w.batch, before.batch):
            continue
        noise = 2.0 * WINDOW_SD**2 + STEP_SD**2 * (1.0 / w.steps + 1.0 / before.steps) + doubt + its_doubt
        wander = 2.0 * LEVEL_SD**2 * (1.0 - math.exp((before.at - w.at) / LEVEL_SECONDS))
        pairs.append(_Pair(w.at, (rest - its_rest) ** 2 / (noise + wander)))
    return pairs


def _restlessness(pairs: Sequence[_Pair]) -> float:
    """Compare neighbouring windows with the prior: the factor on every variance of time."""
    total = _PRIOR_PAIRS + sum(min(_OUTLIER**2, pair.ratio) for pair in pairs)
    return max(_LEAST_RESTLESSNESS, total / (_PRIOR_PAIRS + len(pairs)))


def _same_load(one: float, other: float) -> bool:
    return abs(math.log(one / other)) < _PAIR_BATCH
