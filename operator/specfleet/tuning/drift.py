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

from specfleet.tuning.model import Place, Prior, Vector, log_seconds_at, log_seconds_of
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
_CONVERGED = 0.003  # of every logarithm in one step
_PAIR_SECONDS = 90.0
_PAIR_BATCH = 0.1
_PRIOR_PAIRS = 4.0
_LEAST_RESTLESSNESS = 0.05
_OUTLIER = 3.0  # standard deviations
_JUMP_SECONDS = 3.0 * LEVEL_SECONDS  # as good as two machines


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of a step. ``own``: covariance of what the model misses here with each window.

    ``log_width``: ln(N / B), ``drafts``: whether the depth drafts at all;
    ``slopes``: by the logarithms of the model's numbers, less what the windows already say.
    """

    seconds: float
    log_width: float
    drafts: bool
    own: Vector
    slopes: Vector


class Regression:
    """Fitted to windows; predicts ln seconds and differences between depths."""

    def __init__(self, windows: Windows, prior: Prior) -> None:
        self._windows = windows
        self._at = np.array([w.at for w in windows])
        self._log_batch = np.log([max(w.batch, 1.0) for w in windows])
        self._log_width = np.log([w.tokens / w.batch for w in windows])
        self._drafts = np.array([float(w.depth > 0) for w in windows])
        self._observed = np.log([w.seconds for w in windows])
        self._prior_logs = np.log(prior.seconds)
        self._prior_precision = np.diag(1.0 / np.square(prior.sd))
        pairs = _pairs(windows)
        self._restless = _restlessness(pairs)
        jumps = [pair.at for pair in pairs if pair.ratio > _OUTLIER**2 * self._restless]
        self._level_at = self._at + _JUMP_SECONDS * np.searchsorted(sorted(jumps), self._at, side="right")
        noise = self._restless * (WINDOW_SD**2 + STEP_SD**2 / np.array([w.steps for w in windows]))
        self._fit(noise)
        spread = np.abs(self._left) / np.sqrt(np.diag(self._inverse)) / _OUTLIER
        if (spread > 1.0).any():
            self._fit(noise + np.maximum(spread**2 - 1.0, 0.0) / np.diag(self._inverse))

    def _fit(self, noise: Vector) -> None:
        """Damped Gauss-Newton on ln T, with errors that belong together in time, batch and depth."""
        ages = np.abs(self._at[:, None] - self._at)
        near = _near(self._log_batch[:, None] - self._log_batch)
        alike = _alike(self._log_width[:, None] - self._log_width)
        lasting = np.exp(-ages / MISS_SECONDS)
        drafting = np.outer(self._drafts, self._drafts)
        own = BATCH_MISS_SD**2 + (MISS_SD**2 * alike + DRAFTING_MISS_SD**2 * drafting) * lasting
        covariance = self._level(self._level_at[:, None]) + near * own
        self._inverse = np.linalg.inv(covariance + np.diag(noise))
        logs = self._prior_logs
        for _ in range(_MOST_STEPS):
            predicted, slopes = log_seconds_of(self._windows, np.exp(logs))
            weighted = slopes.T @ self._inverse
            normal = weighted @ slopes + self._prior_precision
            gradient = weighted @ (self._observed - predicted) - self._prior_precision @ (
                logs - self._prior_logs
            )
            step = np.clip(np.linalg.solve(normal, gradient), -_STEP_LIMIT, _STEP_LIMIT)
            logs = logs + step
            if np.abs(step).max() < _CONVERGED:
                break
        predicted, slopes = log_seconds_of(self._windows, np.exp(logs))
        self._numbers = np.exp(logs).tolist()
        self._weighted = slopes.T @ self._inverse
        self._normal = np.linalg.inv(self._weighted @ slopes + self._prior_precision)
        self._left = self._inverse @ (self._observed - predicted)

    def predict(self, place: Place, now: float) -> Prediction:
        """Predict ln T at the machine's level of ``now``."""
        model, slopes = log_seconds_at(place, self._numbers)
        level = self._level(now + self._level_at.max() - self._at.max())
        own = self._own(place, now)
        seconds = math.exp(model + float((level + own) @ self._left))
        slopes = slopes - self._weighted @ own
        return Prediction(seconds, place.log_width, place.depth > 0, own, slopes)

    def difference_sd(self, one: Prediction, other: Prediction) -> float:
        """Give the standard deviation of ln(T_one / T_other), two depths at one batch."""
        own, slopes = one.own - other.own, one.slopes - other.slopes
        before = 2.0 * MISS_SD**2 * (1.0 - float(_alike(one.log_width - other.log_width)))
        before += DRAFTING_MISS_SD**2 * (one.drafts != other.drafts)
        left = before - own @ self._inverse @ own + slopes @ self._normal @ slopes
        return math.sqrt(max(0.0, float(left)))

    def _level(self, at: Vector | float) -> Vector:
        """Covariance of each window's level with the level at other times."""
        close: Vector = np.exp(-np.abs(at - self._level_at) / LEVEL_SECONDS)
        return self._restless * LEVEL_SD**2 * close

    def _own(self, place: Place, now: float) -> Vector:
        """Covariance of each window with what the model misses at a place."""
        near = _near(math.log(max(place.batch, 1.0)) - self._log_batch)
        alike = _alike(place.log_width - self._log_width)
        lasting = np.exp(-np.abs(now - self._at) / MISS_SECONDS)
        drafting = (place.depth > 0) * self._drafts
        return near * (BATCH_MISS_SD**2 + (MISS_SD**2 * alike + DRAFTING_MISS_SD**2 * drafting) * lasting)


def _near(distance: Vector) -> Vector:
    return np.exp(-np.square(distance / NEIGHBOURHOOD))


def _alike(distance: Vector | float) -> Vector:
    return np.exp(-np.square(np.divide(distance, WIDTH_SCALE)))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two windows of one depth in a row, at the same load. ``ratio``: of variance found to expected."""

    at: float
    ratio: float


def _pairs(windows: Windows) -> list[_Pair]:
    last: dict[int, Window] = {}
    pairs = []
    for w in sorted(windows, key=lambda w: w.at):
        before = last.get(w.depth)
        last[w.depth] = w
        if before is None or w.at - before.at > _PAIR_SECONDS or not _same_load(w.batch, before.batch):
            continue
        noise = 2.0 * WINDOW_SD**2 + STEP_SD**2 * (1.0 / w.steps + 1.0 / before.steps)
        wander = 2.0 * LEVEL_SD**2 * (1.0 - math.exp((before.at - w.at) / LEVEL_SECONDS))
        pairs.append(_Pair(w.at, math.log(w.seconds / before.seconds) ** 2 / (noise + wander)))
    return pairs


def _restlessness(pairs: Sequence[_Pair]) -> float:
    """Compare neighbouring windows with the prior: the factor on every variance of time."""
    total = _PRIOR_PAIRS + sum(min(_OUTLIER**2, pair.ratio) for pair in pairs)
    return max(_LEAST_RESTLESSNESS, total / (_PRIOR_PAIRS + len(pairs)))


def _same_load(one: float, other: float) -> bool:
    return abs(math.log(one / other)) < _PAIR_BATCH
