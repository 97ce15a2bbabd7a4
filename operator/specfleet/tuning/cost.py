"""Step times: measured windows, the model under them, and how sure a comparison of two depths is."""

import math
from collections.abc import Sequence
from functools import lru_cache

from specfleet.tuning.drift import NEIGHBOURHOOD, Place, Prediction, Regression
from specfleet.tuning.model import prior_from
from specfleet.tuning.windows import Window, Windows

ENOUGH_STEPS = 60.0  # per depth and neighbourhood
FULL_STEPS = 200.0
LEAST_KERNEL = 0.3  # batches within a factor of 1.5


class StepCost:
    """Predicts step times from windows, as seen at ``now``.

    ``context``: cached tokens of one request. ``knee_tokens``: of hardware that is known (`hardware`).
    """

    def __init__(
        self, windows: Windows, now: float, *, context: float = 0.0, knee_tokens: float | None = None
    ) -> None:
        self._now = now
        self._context = context
        self._predictions: dict[Place, Prediction] = {}
        self._by_depth: dict[int, list[Window]] = {}
        for window in windows:
            self._by_depth.setdefault(window.depth, []).append(window)
        self._regression = _regression(windows, knee_tokens) if windows else None

    def seconds(self, batch: float, tokens: float, depth: int) -> float:
        """Seconds of one decode step. Raises ValueError without any window."""
        return self._at(batch, tokens, depth).seconds

    def uncertainty(self, one: tuple[float, float, int], other: tuple[float, float, int]) -> float:
        """Standard deviation of ln(T_one / T_other); each is (batch, tokens, depth), at one batch."""
        return self._fitted().difference_sd(self._at(*one), self._at(*other))

    def _at(self, batch: float, tokens: float, depth: int) -> Prediction:
        place = Place(batch, tokens, depth, batch * self._context)
        if place not in self._predictions:
            self._predictions[place] = self._fitted().predict(place, self._now)
        return self._predictions[place]

    def steps_near(self, batch: float, depth: int) -> float:
        """Measured steps at a depth near a batch, whatever their age."""
        return sum(min(w.steps, FULL_STEPS) for w in self._near(batch, depth))

    def last_measured(self, batch: float, depth: int) -> float | None:
        """When that depth was last measured near that batch."""
        return max((w.at for w in self._near(batch, depth)), default=None)

    def _fitted(self) -> Regression:
        if self._regression is None:
            raise ValueError("no step has been measured yet")
        return self._regression

    def _near(self, batch: float, depth: int) -> Sequence[Window]:
        return [w for w in self._by_depth.get(depth, ()) if _kernel(w, batch) > LEAST_KERNEL]


def _kernel(window: Window, batch: float) -> float:
    distance = math.log(max(batch, 1.0) / max(window.batch, 1.0)) / NEIGHBOURHOOD
    return math.exp(-distance * distance) if abs(distance) < 3.0 else 0.0


@lru_cache(maxsize=256)
def _regression(windows: Windows, knee_tokens: float | None) -> Regression:
    return Regression(windows, prior_from(windows, knee_tokens))
