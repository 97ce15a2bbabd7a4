"""Means over scenarios and seeds with their standard errors. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mean:
    """``error``: standard error over the seeds; NaN with one seed. ``worst``: the largest scenario's mean."""

    value: float
    error: float
    worst: float
    worst_scenario: str


def mean_over_scenarios(values: Mapping[str, Sequence[float]]) -> Mean:
    """Average the scenarios' means. Scenarios are given, seeds are drawn: only those make the error.

    Raises ValueError without any value.
    """
    if not values or not all(values.values()):
        raise ValueError("a mean needs a value from every scenario")
    means = {name: fmean(found) for name, found in values.items()}
    spread = [variance(found) / len(found) if len(found) > 1 else math.nan for found in values.values()]
    worst = max(means, key=lambda name: means[name])
    return Mean(fmean(means.values()), math.sqrt(sum(spread)) / len(means), means[worst], worst)


def of_policy(results: Sequence[Result], policy: str, key: str) -> dict[str, list[float]]:
    """Give one figure of a policy by scenario, seed by seed."""
    found: dict[str, list[float]] = {}
    for one in results:
        if one["policy"] == policy and one[key] is not None:
            found.setdefault(one["scenario"], []).append(float(one[key]))
    return found


def log_ratios(results: Sequence[Result], policy: str, other: str, key: str) -> dict[str, list[float]]:
    """Give ln(policy / other) of a figure by scenario, paired by seed."""
    return _paired(results, policy, other, key, lambda ours, theirs: math.log(ours / theirs))


def differences(results: Sequence[Result], policy: str, other: str, key: str) -> dict[str, list[float]]:
    """Give policy less other of a figure by scenario, paired by seed."""
    return _paired(results, policy, other, key, lambda ours, theirs: ours - theirs)


def _paired(
    results: Sequence[Result], policy: str, other: str, key: str, compare: Callable[[float, float], float]
) -> dict[str, list[float]]:
    theirs = {(one["scenario"], one["seed"]): float(one[key]) for one in results if one["policy"] == other}
    found: dict[str, list[float]] = {}
    for one in results:
        place = one["scenario"], one["seed"]
        if one["policy"] == policy and place in theirs:
            found.setdefault(one["scenario"], []).append(compare(float(one[key]), theirs[place]))
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """Give the smallest value that at least ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
