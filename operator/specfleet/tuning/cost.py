"""Step times: measured windows, the model under them, and how sure a comparison of two depths is."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from specfleet.tuning.drift import Prediction, Regression
from specfleet.tuning.model import Place, prior_from
from specfleet.tuning.windows import MOST_CHUNK, WITHOUT, Window, Windows

ENOUGH_STEPS = 60.0  # per depth and neighbourhood
FULL_STEPS = 200.0
NEAR = 1.47  # batches within that factor speak for each other


class Point(NamedTuple):
    """``prompts`` tokens are read beside the ``tokens`` of ``batch`` requests; ``loaded`` as in `Place`."""

    batch: float
    tokens: float
    depth: int
    prompts: float = 0.0
    loaded: bool = True


class StepCost:
    """Predicts step times from windows, as seen at ``now``.

    ``context``: cached tokens of one request. ``chunk``: prompt tokens that are read at once.
    ``knee_tokens``: of hardware that is known (`hardware`). ``taxed`` False: depth 0 was measured in engines
    without a proposer.
    """

    def __init__(
        self,
        windows: Windows,
        now: float,
        *,
        context: float = 0.0,
        chunk: float = MOST_CHUNK,
        knee_tokens: float | None = None,
        taxed: bool = True,
    ) -> None:
        self._now = now
        self._context = context
        self._chunk = chunk
        self._steps: dict[tuple[float, int], float] = {}
        self._predictions: dict[Point, Prediction] = {}
        self._by_depth: dict[int, list[Window]] = {}
        for window in windows:
            self._by_depth.setdefault(window.arm, []).append(window)
        self._regression = _regression(windows, knee_tokens, taxed) if windows else None

    def seconds(
        self, batch: float, tokens: float, depth: int, prompts: float = 0.0, loaded: bool = True
    ) -> float:
        """Seconds of a step at a `Point`. Raises ValueError without any window."""
        return self._at(Point(batch, tokens, depth, prompts, loaded)).seconds

    def uncertainty(self, one: Point, other: Point) -> float:
        """Standard deviation of ln(T_one / T_other), at one batch."""
        return self._fitted().difference_sd(self._at(one), self._at(other))

    def prepare(self, points: Iterable[Point]) -> None:
        """Predict many points at once, since each alone takes as long as all of them."""
        new = [point for point in points if point not in self._predictions]
        if new:
            found = self._fitted().predict([self._place(point) for point in new], self._now)
            self._predictions.update(zip(new, found, strict=True))

    def _at(self, point: Point) -> Prediction:
        if point not in self._predictions:
            self.prepare([point])
        return self._predictions[point]

    def _place(self, point: Point) -> Place:
        batch, tokens, depth, prompts, loaded = point
        return Place(batch, tokens, depth, batch * self._context, prompts, self._chunk, loaded)

    @property
    def depths(self) -> Collection[int]:
        """Every depth that was measured, at whatever batch."""
        return [arm for arm in self._by_depth if arm != WITHOUT]

    def steps_near(self, batch: float, depth: int) -> float:
        """Measured steps at a depth near a batch, whatever their age."""
        if (batch, depth) not in self._steps:
            steps = sum(min(w.steps, FULL_STEPS) for w in self._near(batch, depth))
            self._steps[batch, depth] = steps
        return self._steps[batch, depth]

    def last_measured(self, batch: float, depth: int) -> float | None:
        """When that depth was last measured near that batch."""
        return max((w.at for w in self._near(batch, depth)), default=None)

    def _fitted(self) -> Regression:
        if self._regression is None:
            raise ValueError("no step has been measured yet")
        return self._regression

    def _near(self, batch: float, depth: int) -> Sequence[Window]:
        low, high = max(batch, 1.0) / NEAR, max(batch, 1.0) * NEAR
        return [w for w in self._by_depth.get(depth, ()) if low < max(w.batch, 1.0) < high]


@lru_cache(maxsize=256)
def _regression(windows: Windows, knee_tokens: float | None, taxed: bool) -> Regression:
    return Regression(windows, prior_from(windows, knee_tokens, taxed))
