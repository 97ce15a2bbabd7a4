"""What a decode step costs: a small model fitted to measured windows, corrected by nearby windows.

    T = (m^4 + (c N)^4)^(1/4) + e B + 1[k > 0] (d0 + k d1)      N = B (1 + drafts per sequence)

The blend of memory-bound m and compute-bound c N is that of design/tuning.md, section 5. It carries a
window to another batch or another share of drafts; its level comes from the windows of the same depth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

WINDOWS_PER_CELL = 8
MAX_AGE_SECONDS = 4 * 3600.0
RECENT_SECONDS = 300.0  # half-life of a window's weight: between two probes of a known depth
MIN_STEPS = 10.0
ENOUGH_STEPS = 60.0  # per depth and neighbourhood: a mean over that many steps is good to about 1 %
FULL_STEPS = 200.0
LEAST_KERNEL = 0.3  # batches within a factor of 1.5
NEIGHBOURHOOD = 0.35  # width in ln(batch) inside which windows speak for each other

_RESIDUAL_SD = 0.06
_HUBER = 0.15
_STEPS = 6
_STEP_LIMIT = 0.3
_PRIOR_SD = np.array([0.5, 1.0, 1.0, 1.0, 1.0])
_PRIOR_SHARE = np.array([0.8, 1 / 24, 0.01, 0.03, 0.02])  # of the fastest window


@dataclass(frozen=True, slots=True)
class Window:
    """Mean step time of one depth over some steps. ``tokens`` is N, batch and drafts together."""

    at: float
    depth: int
    batch: float
    tokens: float
    seconds: float
    steps: float

    def weight(self, now: float) -> float:
        return min(self.steps, FULL_STEPS) * float(0.5 ** ((now - self.at) / RECENT_SECONDS))


Windows = tuple[Window, ...]


def remember(windows: Windows, new: Window, shift_others: bool) -> Windows:
    """Add a window to its cell, the oldest of eight makes room.

    ``shift_others``: the depth is the one in use, so a change of its level (a busy machine, longer contexts)
    is taken to hold for all depths that were not measured meanwhile; only probes change ratios.
    """
    kept = tuple(w for w in windows if new.at - w.at <= MAX_AGE_SECONDS)
    if shift_others and (factor := _level_change(kept, new)) != 1.0:
        kept = tuple(w if w.depth == new.depth else replace(w, seconds=w.seconds * factor) for w in kept)
    cell = [w for w in kept if _cell(w) == _cell(new)]
    if len(cell) >= WINDOWS_PER_CELL:
        oldest = min(cell, key=lambda w: w.at)
        kept = tuple(w for w in kept if w is not oldest)
    return (*kept, new)


def _cell(window: Window) -> tuple[int, int]:
    return window.depth, round(2 * math.log2(max(window.batch, 1.0)))


def _level_change(windows: Windows, new: Window) -> float:
    before = StepCost(windows, new.at)
    support = before.support(new.batch, new.depth)
    if support < ENOUGH_STEPS:
        return 1.0
    ratio = new.seconds / before.seconds(new.batch, new.tokens, new.depth)
    share = new.weight(new.at) / (support + new.weight(new.at))
    return float(min(1.25, max(0.8, ratio)) ** share)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A window with its weight now and what the model misses of it, in logs."""

    window: Window
    weight: float
    residual: float


class StepCost:
    """Predicts step times from windows, as seen at ``now``."""

    def __init__(self, windows: Windows, now: float) -> None:
        self._model = _fit(windows, now) if windows else None
        self._seen: dict[int, list[_Seen]] = {}
        for w in windows:
            model = _model_seconds(self._model or (), w.batch, w.tokens, w.depth)
            seen = _Seen(w, w.weight(now), math.log(w.seconds / model))
            self._seen.setdefault(w.depth, []).append(seen)

    def seconds(self, batch: float, tokens: float, depth: int) -> float:
        """Seconds of one decode step. Raises ValueError without any window."""
        if self._model is None:
            raise ValueError("no step has been measured yet")
        total = residual = 0.0
        for seen in self._seen.get(depth, ()):
            weight = seen.weight * _kernel(seen.window, batch)
            total += weight
            residual += weight * seen.residual
        model = _model_seconds(self._model, batch, tokens, depth)
        return float(model * math.exp(residual / (total + MIN_STEPS)))

    def support(self, batch: float, depth: int) -> float:
        """Measured steps at a depth near a batch, weighted by nearness and age."""
        return sum(seen.weight * _kernel(seen.window, batch) for seen in self._seen.get(depth, ()))

    def steps_near(self, batch: float, depth: int) -> float:
        """Measured steps at a depth near a batch, whatever their age."""
        return sum(min(w.steps, FULL_STEPS) for w in self._near(batch, depth))

    def last_measured(self, batch: float, depth: int) -> float | None:
        """When that depth was last measured near that batch."""
        return max((w.at for w in self._near(batch, depth)), default=None)

    def _near(self, batch: float, depth: int) -> list[Window]:
        windows = (seen.window for seen in self._seen.get(depth, ()))
        return [w for w in windows if _kernel(w, batch) > LEAST_KERNEL]


def _kernel(window: Window, batch: float) -> float:
    distance = math.log(max(batch, 1.0) / max(window.batch, 1.0)) / NEIGHBOURHOOD
    return math.exp(-distance * distance) if abs(distance) < 3.0 else 0.0


def _model_seconds(logs: Sequence[float], batch: float, tokens: float, depth: int) -> float:
    m, c, e, d0, d1 = (math.exp(value) for value in logs)
    draft = d0 + depth * d1 if depth > 0 else 0.0
    return float((m**4 + (c * tokens) ** 4) ** 0.25 + e * batch + draft)


@lru_cache(maxsize=256)
def _fit(windows: Windows, now: float) -> tuple[float, ...]:
    """Damped Gauss-Newton on log T with log-normal priors around the fastest window."""
    batch, tokens, depth, seconds, weight = np.array(
        [(w.batch, w.tokens, w.depth, w.seconds, w.weight(now) / FULL_STEPS) for w in windows]
    ).T
    weight = np.maximum(weight, 0.02)
    drafting = (depth > 0).astype(float)
    prior = np.log(_PRIOR_SHARE * seconds.min())
    logs = prior.copy()
    for _ in range(_STEPS):
        m, c, e, d0, d1 = np.exp(logs)
        blend = (m**4 + (c * tokens) ** 4) ** 0.25
        model = blend + e * batch + drafting * (d0 + depth * d1)
        slopes = np.stack(
            [m**4 / blend**3, (c * tokens) ** 4 / blend**3, e * batch, drafting * d0, drafting * depth * d1],
            1,
        )
        jacobian = slopes / model[:, None]
        residual = np.log(seconds / model)
        huber = np.minimum(1.0, _HUBER / np.maximum(np.abs(residual), 1e-9))
        precision = weight * huber / _RESIDUAL_SD**2
        normal = jacobian.T @ (jacobian * precision[:, None]) + np.diag(1.0 / _PRIOR_SD**2)
        gradient = jacobian.T @ (precision * residual) - (logs - prior) / _PRIOR_SD**2
        logs = logs + np.clip(np.linalg.solve(normal, gradient), -_STEP_LIMIT, _STEP_LIMIT)
    return tuple(float(value) for value in logs)
