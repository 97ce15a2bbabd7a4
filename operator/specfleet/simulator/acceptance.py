"""How well drafts are accepted over a run: kinds of text, drift, regimes, a collapse. Known to no policy.

Everything is drawn before the run from its seed, second by second, so all policies meet the same text.
Source: design/simulator.md, section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specfleet.simulator.layout import POSITIONS
from specfleet.simulator.tokens import MOST_SURVIVAL

CODE = (0.82, 0.69, 0.58, 0.50, 0.43)
CHAT = (0.60, 0.37, 0.23, 0.15, 0.10)
RETRIEVAL = (0.55, 0.29, 0.16, 0.10, 0.06)
COLLAPSE_FROM = 0.55  # of the run
COLLAPSE_SECONDS = 1200.0


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The text of a scenario. ``profiles`` are survivals by position, ``mix`` their shares of requests.

    ``weak`` 0.55 multiplies S_i by .55^(1 + .3 (i - 1)): a weak draft; 1.0: none. ``ceiling`` caps S_1: an
    adversarial draft has .05. ``halves_in_seconds``: slow decay of all survival. ``collapse``: S_1 x .25 for
    20 min. ``idle_share`` and ``variable``: n-gram drafters. ``resume``: factor after depth 0. ``spread``:
    sd of the logarithm of what a request multiplies its survivals by.
    """

    profiles: tuple[tuple[float, ...], ...] = (CODE, CHAT, RETRIEVAL)
    mix: tuple[float, ...] = (0.2, 0.6, 0.2)
    drift: float = 0.3
    regimes: bool = True
    collapse: bool = True
    weak: float = 1.0
    ceiling: float = 1.0
    halves_in_seconds: float | None = None
    idle_share: float = 0.0
    variable: bool = False
    resume: float = 1.0
    spread: float = 0.12

    def __post_init__(self) -> None:
        if len(self.profiles) != len(self.mix) or abs(sum(self.mix) - 1.0) > 1e-6:
            raise ValueError("mix needs one share for each profile, and they add up to 1")
        if any(not 0.0 <= s <= 1.0 for profile in self.profiles for s in profile):
            raise ValueError("survival lies in 0..1")

    def survivals(self) -> np.ndarray:
        """Give survival by kind and position, weak drafts and ceiling applied, deep ones extrapolated."""
        table = np.array([_extended(profile) for profile in self.profiles])
        table *= self.weak ** (1.0 + 0.3 * np.arange(POSITIONS))
        excess = np.maximum(table[:, :1] / self.ceiling, 1.0)
        return np.minimum.accumulate(table / excess, axis=1)


@dataclass(frozen=True, slots=True)
class Text:
    """One draw of a scenario's text by second: shares of kinds among requests, common factors, and mean
    survival over the steps of the requests: well accepted ones need fewer (at depth 2).
    """

    mix: np.ndarray
    factor: np.ndarray
    mean: np.ndarray
    spread: float


def draw_text(acceptance: Acceptance, seconds: int, random: np.random.Generator) -> Text:
    """Draw the text of a run of ``seconds``."""
    mix = np.tile(np.array(acceptance.mix), (seconds, 1))
    if acceptance.regimes and len(acceptance.mix) > 1:
        _draw_regimes(mix, random)
    mix[:, 0] *= np.exp(acceptance.drift * _ornstein(seconds, random))
    mix /= mix.sum(axis=1, keepdims=True)
    factor = np.ones((seconds, POSITIONS))
    if acceptance.collapse:
        start = int(COLLAPSE_FROM * seconds)
        end = min(seconds, start + int(COLLAPSE_SECONDS))
        factor[start:end] *= 0.25 ** ((np.arange(1, POSITIONS + 1) + 1) / 2)
    if acceptance.halves_in_seconds is not None:
        factor *= 0.5 ** (np.arange(seconds) / acceptance.halves_in_seconds)[:, None]
    survivals = mean_survivals(acceptance)
    steps = mix / (1.0 + survivals[:, 0] + survivals[:, 1])
    steps /= steps.sum(axis=1, keepdims=True)
    return Text(mix, factor, (steps @ survivals) * factor, acceptance.spread)


def recorded(requests: Sequence[Sequence[int]]) -> Acceptance:
    """Replay recorded requests: for each, how many drafts were accepted in each of its steps, at one depth.

    Every request of a run is one of them. Raises ValueError without any step.
    """
    profiles = []
    for accepted in filter(len, requests):
        steps = np.asarray(accepted)
        deepest = max(1, min(POSITIONS, int(steps.max())))
        profiles.append(tuple(float((steps >= i).mean()) for i in range(1, deepest + 1)))
    if not profiles:
        raise ValueError("a replay needs at least one request with a step")
    mix = (1.0 / len(profiles),) * len(profiles)
    return Acceptance(tuple(profiles), mix, drift=0.0, regimes=False, collapse=False, spread=0.0)


def mean_survivals(acceptance: Acceptance) -> np.ndarray:
    """Give survival by kind and position, averaged over the spread of requests."""
    points, weights = np.polynomial.hermite_e.hermegauss(21)
    lifts = np.exp(acceptance.spread * points)[:, None, None]
    capped = np.minimum(MOST_SURVIVAL, acceptance.survivals()[None] * lifts)
    return np.asarray(np.tensordot(weights / weights.sum(), capped, axes=1))


def _extended(profile: tuple[float, ...]) -> np.ndarray:
    """Let deeper positions fall as the last two did."""
    values = list(profile[:POSITIONS])
    ratio = values[-1] / values[-2] if len(values) > 1 and values[-2] > 0 else 0.5
    while len(values) < POSITIONS:
        values.append(values[-1] * min(1.0, ratio))
    return np.array(values)


def _draw_regimes(mix: np.ndarray, random: np.random.Generator) -> None:
    """Every 15 to 45 min another kind takes .7 of the requests."""
    at = int(random.uniform(900, 2700))
    base = mix[0].copy()
    while at < len(mix):
        until = at + int(random.uniform(900, 2700))
        kind = int(random.integers(len(base)))
        others = 0.3 * base / (base.sum() - base[kind])
        mix[at:until] = others
        mix[at:until, kind] = 0.7
        at = until


def _ornstein(seconds: int, random: np.random.Generator) -> np.ndarray:
    """ou' = .999 ou + .03 z, a value a second."""
    pushes = 0.03 * random.standard_normal(seconds)
    values = np.empty(seconds)
    value = 0.0
    for second in range(seconds):
        value = 0.999 * value + pushes[second]
        values[second] = value
    return values
