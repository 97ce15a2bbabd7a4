"""Means over scenarios and seeds with their standard errors. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mean:
    """``error``: standard error over the seeds; NaN with one seed. ``worst``: the largest scenario's mean.

    ``worst_error`` is that of the worst scenario alone.
    """

    value: float
    error: float
    worst: float
    worst_error: float
    worst_scenario: str


# A figure by scenario and seed.
Values = dict[str, dict[int, float]]


def mean_over_scenarios(values: Values) -> Mean:
    """Average the scenarios' means. Scenarios are given, seeds are drawn: only those make the error.

    A seed draws the same text for all scenarios, so their errors are not independent: the error is that of
    the seeds' means over the scenarios, of the seeds that every scenario has. Raises ValueError without any
    value.
    """
    if not values or not all(values.values()):
        raise ValueError("a mean needs a value from every scenario")
    means = {name: fmean(found.values()) for name, found in values.items()}
    common = set.intersection(*(set(found) for found in values.values()))
    by_seed = [fmean(found[seed] for found in values.values()) for seed in sorted(common)]
    worst = max(means, key=lambda name: means[name])
    return Mean(
        fmean(means.values()), _error(by_seed), means[worst], _error(list(values[worst].values())), worst
    )


def _error(values: Sequence[float]) -> float:
    return math.sqrt(variance(values) / len(values)) if len(values) > 1 else math.nan


def of_policy(results: Sequence[Result], policy: str, key: str) -> Values:
    """Give one figure of a policy."""
    found: Values = {}
    for one in results:
        if one["policy"] == policy and one[key] is not None:
            found.setdefault(one["scenario"], {})[one["seed"]] = float(one[key])
    return found


def log_ratios(results: Sequence[Result], policy: str, other: str, key: str) -> Values:
    """Give ln(policy / other) of a figure, paired by seed."""
    return _paired(results, policy, other, key, lambda ours, theirs: math.log(ours / theirs))


def differences(results: Sequence[Result], policy: str, other: str, key: str) -> Values:
    """Give policy less other of a figure, paired by seed."""
    return _paired(results, policy, other, key, lambda ours, theirs: ours - theirs)


def _paired(
    results: Sequence[Result], policy: str, other: str, key: str, compare: Callable[[float, float], float]
) -> Values:
    theirs = {(one["scenario"], one["seed"]): float(one[key]) for one in results if one["policy"] == other}
    found: Values = {}
    for one in results:
        place = one["scenario"], one["seed"]
        if one["policy"] == policy and place in theirs:
            found.setdefault(place[0], {})[place[1]] = compare(float(one[key]), theirs[place])
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """Give the smallest value that at least ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
