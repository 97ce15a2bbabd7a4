"""How well the predictions hold. Source: design/simulator.md, section 9, and reference/validation.md."""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from specfleet.published.predict import Prediction

SIGN, NOTCH, ERROR = 0.95, 0.85, 0.08
TIE = 0.02  # published speed-ups nearer to 1 are within the noise of their own runs: either sign is right


def figures(found: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Give the three figures in the common form. Raises ValueError without predictions."""
    if not found:
        raise ValueError("nothing was predicted")
    errors = [error for one in found for error in speedup_errors(one)]
    return [
        _figure("sign of the best gain right", fmean(map(sign_is_right, found)), SIGN, least=True),
        _figure("best depth within one notch", fmean(map(within_one_notch, found)), NOTCH, least=True),
        _figure("median error of the speed-up", median(errors), ERROR, least=False),
    ]


def sign_is_right(one: Prediction) -> bool:
    """Say whether speculation was rightly found to pay, or not to."""
    gain = max(speed for depth, speed in one.published.items() if depth > 0)
    return abs(gain - 1.0) <= TIE or (one.predicted_depth > 0) == (gain > 1.0)


def within_one_notch(one: Prediction) -> bool:
    """Say whether the predicted depth is the best of those that were tried, or next to it."""
    tried = sorted(one.published)
    return abs(tried.index(one.predicted_depth) - tried.index(one.published_depth)) <= 1


def speedup_errors(one: Prediction) -> list[float]:
    """Give |predicted / published - 1| for each depth above 0."""
    return [abs(one.predicted[depth] / speed - 1.0) for depth, speed in one.published.items() if depth > 0]


def _figure(name: str, value: float, bound: float, *, least: bool) -> dict[str, Any]:
    met = value >= bound if least else value <= bound
    assert not math.isnan(value)
    return {
        "name": name,
        "value": value,
        "unit": "share",
        "target": f"{'>=' if least else '<='} {bound:g}",
        "met": met,
        "kind": "stretch",
    }
