"""The figures beside their targets, from the cells' results and published measurements.

Targets: design/simulator.md, section 9. A comparison with another policy carries a tie band of 2 % or two
standard errors, whichever is larger; "better" must hold beyond two standard errors all the same, or a wide
error would prove it. A figure that could not be computed is not met.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.evaluation.canaries import LOADS
from dev.evaluation.means import (
    Mean,
    Result,
    Values,
    differences,
    log_ratios,
    mean_over_scenarios,
    of_policy,
    quantile,
)
from dev.evaluation.plan import OFF, ORACLE, OURS
from dev.evaluation.scenarios import (
    ADVERSARIAL_DAY,
    COLLAPSE,
    DAYS,
    MISSING_DATA,
    STEP_OVERLOAD,
    TABLE_SCENARIOS,
)

from specfleet import published

TIE = 0.02
CANARIES_PER_WEEK = 20
PUBLISHED = Path(__file__).parent / "published.json"
Figure = dict[str, Any]
_TABLE = {one.name for one in TABLE_SCENARIOS}
# Policy, least ratio of its latency to ours, and whether it must be reached.
_BEATEN = (
    ("static-2", 1.05, "must"),
    ("acceptance-threshold", 1.05, "must"),
    ("table-code", 1.05, "stretch"),
    ("table-fast-gpu", 1.05, "stretch"),
    ("bandit", 1.20, "stretch"),
)


def figures(results: Sequence[Result]) -> list[Figure]:
    """Compute every figure."""
    table = [one for one in results if one["scenario"] in _TABLE]
    return [
        *_against_oracle(table),
        *_against_others(table),
        *_never_worse(results),
        *_reactions(results),
        *_pushes(results, table),
        *_model_errors(table),
        *_verdicts(results),
        _figure(
            "moves up while data were missing or bad", _blind_moves(results), "moves", _Target(0, "must")
        ),
    ]


def of_published_sets() -> list[Figure]:
    """Predict published measurements row by row. No seed has a part in it."""
    found, _ = published.grids(json.loads(PUBLISHED.read_text(encoding="utf-8")))
    judged = published.figures([one for grid in found for one in published.predictions(grid)])
    return [{**one, "name": f"published sets: {one['name']}"} for one in judged]


def _against_oracle(table: Sequence[Result]) -> list[Figure]:
    regret = _mean(of_policy(table, OURS, "regret"))
    latency = _mean(log_ratios(table, OURS, ORACLE, "latency"))
    late = _mean(differences(table, OURS, ORACLE, "violations"))
    return [
        *_mean_and_worst("regret against the steady-state oracle", "%", regret, 1.5, 3.0),
        *_mean_and_worst("latency over the oracle's", "ratio", latency, 1.02, 1.10),
        *_mean_and_worst("missed limits above the oracle's", "points", late, 0.5, 2.0),
    ]


def _mean_and_worst(name: str, unit: str, mean: Mean | None, least: float, most: float) -> list[Figure]:
    return [
        _figure(f"{name}, mean", _value(mean, unit), unit, _Target(least), _error(mean, unit)),
        _worst(name, unit, mean, _Target(most)),
    ]


def _worst(name: str, unit: str, mean: Mean | None, target: "_Target") -> Figure:
    """Give the worst scenario's mean with its own error; the bound is judged without a band."""
    error = _error(mean, unit, worst=True)
    return _figure(f"{name}, worst scenario", _value(mean, unit, worst=True), unit, target, error)


def _against_others(table: Sequence[Result]) -> list[Figure]:
    tied = _mean(log_ratios(table, OURS, "table-correct", "latency"))
    target = _Target(1.0, band=_band(tied))
    name = "latency over the correct table's"
    found = [_figure(name, _value(tied, "ratio"), "ratio", target, _error(tied, "ratio"))]
    for policy, least, kind in _BEATEN:
        ratio = _mean(log_ratios(table, policy, OURS, "latency"))
        target = _Target(least, kind, least=True, band=_band(ratio))
        name = f"latency of {policy} over ours"
        found.append(_figure(name, _value(ratio, "ratio"), "ratio", target, _error(ratio, "ratio")))
    return found


def _never_worse(results: Sequence[Result]) -> list[Figure]:
    whole = _mean(log_ratios(results, OURS, OFF, "latency"))
    early = _mean(log_ratios(results, OURS, OFF, "earlyLatency"))
    late = _mean(differences(results, OURS, OFF, "violations"))
    days = [one for one in results if one["scenario"] == ADVERSARIAL_DAY.name]
    day = _mean(log_ratios(days, OURS, OFF, "latency"))
    return [
        _worst("latency over hard-off's", "ratio", whole, _Target(1.01, "must")),
        _worst("latency over hard-off's in the first 2 h", "ratio", early, _Target(1.03, "must")),
        _worst("missed limits above hard-off's", "points", late, _Target(1.0, "must")),
        _worst("latency over hard-off's in a day of adversarial drafts", "ratio", day, _Target(1.01, "must")),
    ]


def _verdicts(results: Sequence[Result]) -> list[Figure]:
    """Judge the judge: equal canaries of each load, and slower ones under moderate load."""
    return [
        *(_false_roll_backs(results, load) for load in LOADS),
        _figure("canary +10 % noticed, p50", _noticed(results, "canary-moderate-10"), "min", _Target(20)),
        _figure("canary +20 % noticed, p50", _noticed(results, "canary-moderate-20"), "min", _Target(6)),
    ]


def _false_roll_backs(results: Sequence[Result], load: str) -> Figure:
    equal = [one["canary"] for one in results if one["scenario"] == f"canary-{load}-equal"]
    judged = sum(one["canaries"] for one in equal)
    false = sum(len(one["minutes"]) for one in equal)
    name = f"false roll-backs at {CANARIES_PER_WEEK} canaries a week, {load} load"
    value = CANARIES_PER_WEEK * false / judged if judged else None
    return _figure(name, value, "per week", _Target(0.5, "must"))


def _noticed(results: Sequence[Result], scenario: str) -> float | None:
    """Minutes from a canary's start; one that was not rolled back took for ever."""
    found = [one["canary"] for one in results if one["scenario"] == scenario]
    minutes = [float(minute) for one in found for minute in one["minutes"]]
    minutes += [math.inf] * (sum(one["canaries"] for one in found) - len(minutes))
    return _quantile(minutes, 0.5)


def _reactions(results: Sequence[Result]) -> list[Figure]:
    disable = _all(results, STEP_OVERLOAD.name, "disable")
    # Where the table was right already, nothing had to be put right.
    wrong = [seconds for seconds in disable if seconds > 0.0] or disable
    reaction = _all(results, COLLAPSE.name, "reaction")
    recovery = _all(results, COLLAPSE.name, "recovery")
    return [
        _figure("wrong table at peak fixed, p50", _quantile(wrong, 0.5), "s", _Target(60)),
        _figure("wrong table at peak fixed, p95", _quantile(wrong, 0.95), "s", _Target(120)),
        _figure("collapse noticed, p95", _quantile(reaction, 0.95), "s", _Target(60)),
        _figure("95 % of the oracle after a collapse, p95", _quantile(recovery, 0.95), "s", _Target(600)),
    ]


def _pushes(results: Sequence[Result], table: Sequence[Result]) -> list[Figure]:
    """Targets are those of a day of 24 h; the table's scenarios press one into two hours."""
    hourly = [float(one["pushesWorstHour"]) for one in results if one["policy"] == OURS]
    days = [one for one in results if one["scenario"] in {day.name for day in DAYS}]
    return [
        _figure("pushes, worst hour", max(hourly, default=None), "per hour", _Target(6, "must")),
        *_often(days, "a day", _Target(1, "must")),
        *_often(table, "days of two hours", _Target(1)),
    ]


def _often(results: Sequence[Result], where: str, target: "_Target") -> list[Figure]:
    rows = (
        ("pushes, mean", "pushes", "per hour"),
        ("reversals of a bin", "reversals", "per day"),
        ("reversals, worst bin", "reversalsWorst", "per day"),
    )
    means = [(name, _mean(of_policy(results, OURS, key)), unit) for name, key, unit in rows]
    return [
        _figure(f"{name}, {where}", _value(mean, ""), unit, target, _error(mean, ""))
        for name, mean, unit in means
    ]


def _model_errors(table: Sequence[Result]) -> list[Figure]:
    rows = (("visited cells", "costErrorVisited", 5), ("cells one notch beside", "costErrorNotch", 10))
    means = [(where, _mean(of_policy(table, OURS, key)), bound) for where, key, bound in rows]
    return [
        _figure(f"cost model's error, {where}", _value(mean, "%"), "%", _Target(bound), _error(mean, "%"))
        for where, mean, bound in means
    ]


@dataclass(frozen=True, slots=True)
class _Target:
    """A bound to stay under, or with ``least`` to reach; ``band`` is the tie band."""

    bound: float
    kind: str = "stretch"
    least: bool = False
    band: float = 0.0

    def met_by(self, value: float, error: float) -> bool:
        if not self.least:
            return value <= self.bound + self.band
        surely = math.isnan(error) or value * math.exp(-2.0 * error) > 1.0
        return surely and value >= self.bound - self.band

    def __str__(self) -> str:
        sign = ">=" if self.least else "<="
        return f"{sign} {self.bound:g}" + (f" (tie {self.band:.3f})" if self.band else "")


def _figure(name: str, value: float | None, unit: str, target: _Target, error: float = math.nan) -> Figure:
    met = value is not None and target.met_by(value, error)
    found: Figure = {
        "name": name,
        "value": value,
        "unit": unit,
        "target": str(target),
        "met": met,
        "kind": target.kind,
    }
    return found if math.isnan(error) else {**found, "standardError": error}


def _mean(values: Values) -> Mean | None:
    return mean_over_scenarios(values) if values else None


def _band(mean: Mean | None) -> float:
    return TIE if mean is None or math.isnan(mean.error) else max(TIE, 2.0 * mean.error)


def _value(mean: Mean | None, unit: str, worst: bool = False) -> float | None:
    """Means of ratios are kept as logarithms, those of shares as shares."""
    if mean is None:
        return None
    value = mean.worst if worst else mean.value
    if unit == "ratio":
        return math.exp(value)
    return 100.0 * value if unit in ("%", "points") else value


def _error(mean: Mean | None, unit: str, worst: bool = False) -> float:
    if mean is None:
        return math.nan
    error = mean.worst_error if worst else mean.error
    return 100.0 * error if unit in ("%", "points") else error


def _all(results: Sequence[Result], scenario: str, key: str) -> list[float]:
    return [float(one[key]) for one in results if one["scenario"] == scenario and one.get(key) is not None]


def _quantile(values: Sequence[float], share: float) -> float | None:
    return quantile(values, share) if values else None


def _blind_moves(results: Sequence[Result]) -> float | None:
    found = [
        float(one["movesWithoutData"])
        for one in results
        if one["policy"] == OURS and one["scenario"] == MISSING_DATA.name
    ]
    return sum(found) if found else None
