"""The evaluation's arithmetic: hand-made results against numbers worked out by hand."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from dev.evaluation.figures import figures
from dev.evaluation.means import differences, log_ratios, mean_over_scenarios, of_policy, quantile
from dev.evaluation.plan import digest, plan
from dev.evaluation.report import write
from dev.evaluation.scenarios import SCENARIOS, TABLE_SCENARIOS
from dev.evaluation.score import moves_without_data, reversals, stays_close, until_close
from dev.evaluation.seeds import DEVELOPMENT, HELD_OUT, read_seeds
from dev.figures import missed

from specfleet.api.schedule import Row, flat
from specfleet.simulator.policies import POLICIES
from specfleet.simulator.scenario import Fault, Telemetry
from specfleet.tuning.decision import Decision, HardOff, Hold, Probe, Push


def a_cell(policy: str, seed: int = 1, scenario: str = "base-diurnal", **figures: Any) -> dict[str, Any]:
    return {
        "scenario": scenario,
        "policy": policy,
        "seed": seed,
        "latency": 10.0,
        "earlyLatency": 10.0,
        "violations": 0.02,
        "regret": 0.01,
        "pushes": 0.5,
        "pushesWorstHour": 2,
        "costErrorVisited": 0.03,
        "costErrorNotch": 0.07,
        "reversals": 0.0,
        "reversalsWorst": 0.0,
        "reaction": None,
        "recovery": None,
        "movesWithoutData": 0,
        **figures,
    }


def figure(results: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(one for one in figures(results) if one["name"] == name)


def test_development_and_held_out_seeds_have_nothing_in_common() -> None:
    assert not set(read_seeds(DEVELOPMENT)) & set(read_seeds(HELD_OUT))
    assert len(read_seeds(HELD_OUT)) >= 10


@pytest.mark.parametrize("text", ["# none\n", "1\n1\n", "one\n"])
def test_a_file_that_holds_no_set_of_seeds_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text(text)

    with pytest.raises(ValueError):
        read_seeds(path)


def test_there_are_twelve_scenarios_in_the_table_and_every_policy_meets_each() -> None:
    cells = plan(list(SCENARIOS), list(POLICIES), [1], None)

    assert len(TABLE_SCENARIOS) == 12
    for scenario in TABLE_SCENARIOS:
        assert {cell.policy for cell in cells if cell.scenario == scenario.name} == set(POLICIES)


@pytest.mark.parametrize(
    ("changed", "ours", "others"),
    [
        pytest.param("operator/specfleet/tuning/drift.py", True, False, id="the tuner's own"),
        pytest.param("operator/specfleet/tuning/bins.py", True, True, id="shared by the tables"),
        pytest.param("operator/specfleet/tuning/attribution.py", True, True, id="shared by the threshold"),
        pytest.param("operator/specfleet/engines/metrics_vllm.py", True, True, id="what is read"),
        pytest.param("operator/specfleet/simulator/steps.py", True, True, id="simulator"),
        pytest.param("dev/evaluation/report.py", False, False, id="only shows"),
    ],
)
def test_a_change_makes_only_those_cells_again_that_it_can_change(
    changed: str, ours: bool, others: bool, tmp_path: Path
) -> None:
    path = tmp_path / changed
    path.parent.mkdir(parents=True)
    path.write_text("A = 1\n")
    before = {policy: digest(policy, tmp_path) for policy in ("ours", "static-2")}

    path.write_text("A = 2\n")

    after = {policy: digest(policy, tmp_path) for policy in before}
    changes = {policy: after[policy] != before[policy] for policy in before}
    assert changes == {"ours": ours, "static-2": others}


def test_a_standard_error_is_that_of_the_seeds_and_not_of_the_scenarios() -> None:
    # The seeds' means are 5.5 and 6.5, variance .5: sqrt(.5 / 2).
    mean = mean_over_scenarios({"one": {1: 1.0, 2: 3.0}, "other": {1: 10.0, 2: 10.0}})

    assert (mean.value, mean.error) == (6.0, 0.5)
    assert (mean.worst, mean.worst_scenario, mean.worst_error) == (10.0, "other", 0.0)


def test_what_a_seed_does_to_all_scenarios_is_not_averaged_away() -> None:
    # Both scenarios move together: 1 and 3 in the mean, variance 2 over two seeds.
    together = {"one": {1: 1.0, 2: 3.0}, "other": {2: 3.0, 1: 1.0}}
    against = {"one": {1: 1.0, 2: 3.0}, "other": {1: 3.0, 2: 1.0}}

    assert mean_over_scenarios(together).error == 1.0
    assert mean_over_scenarios(against).error == 0.0


def test_one_seed_has_no_standard_error() -> None:
    assert math.isnan(mean_over_scenarios({"one": {1: 1.0}}).error)


def test_ratios_and_differences_are_paired_by_scenario_and_seed() -> None:
    results = [
        a_cell("ours", 1, latency=20.0, violations=0.5),
        a_cell("ours", 2, latency=5.0),
        a_cell("oracle", 1, latency=10.0, violations=0.25),
    ]

    assert log_ratios(results, "ours", "oracle", "latency") == {
        "base-diurnal": {1: pytest.approx(math.log(2))}
    }
    assert differences(results, "ours", "oracle", "violations") == {"base-diurnal": {1: 0.25}}
    assert of_policy(results, "ours", "latency") == {"base-diurnal": {1: 20.0, 2: 5.0}}


def test_pushes_and_reversals_are_promised_for_a_day_of_24_hours() -> None:
    results = [a_cell("ours", 1, pushes=3.0), a_cell("ours", 1, scenario="weak-day", pushes=0.4)]

    day, pressed = (figure(results, f"pushes, mean, {where}") for where in ("a day", "days of two hours"))
    assert (day["value"], day["kind"], day["met"]) == (0.4, "must", True)
    assert (pressed["value"], pressed["kind"], pressed["met"]) == (3.0, "stretch", False)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 3.0), (0.95, 5.0), (0.2, 1.0)])
def test_a_quantile_is_a_value_that_was_seen(share: float, expected: float) -> None:
    assert quantile([5.0, 1.0, 4.0, 2.0, 3.0], share) == expected


def test_a_depth_that_turns_back_is_one_reversal() -> None:
    tables = [(Row(8, 3), Row(None, depth)) for depth in (2, 1, 1, 3, 5, 3)]

    assert reversals(tables, 100) == 2
    assert reversals(tables, 4) == 0


def test_the_time_until_close_ends_with_the_first_window_that_is() -> None:
    ratio = np.array([1.0, 0.5, 0.5, 0.96, 0.94, 0.96, 1.0])

    assert until_close(ratio[1:], 2) == 4.0
    assert until_close(ratio[5:], 2) == 0.0
    assert until_close(ratio[1:3], 2) == 2.0


def test_seconds_without_load_do_not_count_as_close() -> None:
    assert until_close(np.array([np.nan, np.nan, 0.5, 0.99, 0.99]), 2) == 5.0


def test_a_table_that_is_kept_far_from_the_oracle_was_not_put_right() -> None:
    nan = math.nan

    assert stays_close(np.array([1.0, 0.9, nan, 0.96]))  # 2.86 / 3
    assert not stays_close(np.array([0.94, nan, 0.94]))
    assert not stays_close(np.array([nan, nan]))


def a_run(faults: tuple[Fault, ...], decisions: dict[float, Decision]) -> SimpleNamespace:
    """Passes of 15 s, of which some decide; depth 2 is in force at first."""
    passes = [
        SimpleNamespace(at=at, outcome=SimpleNamespace(decision=decisions.get(at, Hold("Settled", ""))))
        for at in np.arange(0.0, 3600.0, 15.0)
    ]
    return SimpleNamespace(
        scenario=SimpleNamespace(telemetry=Telemetry(), faults=faults),
        documents=[(0.0, SimpleNamespace(table=flat(2)))],
        passes=passes,
    )


OUTAGE = (Fault("outage", 600.0, 900.0),)
STORM = tuple(Fault("crash", 600.0 + 180.0 * number, 5.0) for number in range(5))


@pytest.mark.parametrize(
    ("faults", "decisions", "moves"),
    [
        pytest.param(OUTAGE, {600.0: Push(flat(3), "")}, 0, id="data are there for some scrapes more"),
        pytest.param(OUTAGE, {1500.0: Push(flat(3), "")}, 1, id="the first data after an outage"),
        pytest.param(OUTAGE, {900.0: Push(flat(1), "")}, 0, id="down"),
        pytest.param(OUTAGE, {900.0: Probe((Row(4, 1), Row(None, 3)), 3, "")}, 1, id="up above 4 requests"),
        pytest.param(OUTAGE, {900.0: Push(flat(1), ""), 915.0: Push(flat(2), "")}, 1, id="down and up"),
        pytest.param(OUTAGE, {900.0: HardOff("", 60.0)}, 1, id="restart"),
        pytest.param(STORM, {900.0: Push(flat(3), "")}, 1, id="between two restarts"),
        pytest.param(STORM, {1500.0: Push(flat(3), "")}, 0, id="after the storm"),
    ],
)
def test_while_data_are_bad_nothing_may_move_up(
    faults: tuple[Fault, ...], decisions: dict[float, Decision], moves: int
) -> None:
    assert moves_without_data(a_run(faults, decisions)) == moves  # type: ignore[arg-type]


def test_a_fifth_more_latency_than_the_oracle_misses_the_target_and_says_by_how_much() -> None:
    results = [a_cell("oracle", s) for s in (1, 2)] + [a_cell("ours", s, latency=12.0) for s in (1, 2)]

    found = figure(results, "latency over the oracle's, mean")

    assert found["value"] == pytest.approx(1.2)
    assert (found["met"], found["kind"], found["target"]) == (False, "stretch", "<= 1.02")
    assert found["standardError"] == pytest.approx(0.0)


def test_better_by_four_percent_is_within_the_tie_band_of_five() -> None:
    results = [a_cell("ours", s) for s in (1, 2)] + [a_cell("static-2", s, latency=10.4) for s in (1, 2)]

    assert figure(results, "latency of static-2 over ours")["met"]


def test_a_wide_error_proves_nothing() -> None:
    results = [a_cell("ours", s) for s in (1, 2)]
    results += [a_cell("static-2", 1, latency=30.0), a_cell("static-2", 2, latency=5.0)]

    found = figure(results, "latency of static-2 over ours")

    assert found["value"] > 1.2
    assert not found["met"]


def test_hard_off_must_not_win_by_more_than_a_percent_in_any_scenario() -> None:
    results = [
        a_cell(policy, scenario=scenario, latency=latency)
        for scenario, ours in (("base-diurnal", 5.0), ("adversarial", 10.2))
        for policy, latency in (("hard-off", 10.0), ("ours", ours))
    ]

    found = figure(results, "latency over hard-off's, worst scenario")

    assert found["value"] == pytest.approx(1.02)
    assert found["name"] in missed(figures(results))


def a_day_of_canaries(name: str, minutes: list[int]) -> dict[str, Any]:
    return a_cell("static-2", scenario=name, canary={"canaries": 20, "minutes": minutes})


def test_false_roll_backs_are_those_of_equal_canaries_in_a_week_of_twenty() -> None:
    results = [
        a_day_of_canaries("canary-moderate-equal", []),
        a_day_of_canaries("canary-saturated-equal", [9]),
    ]

    moderate, saturated = (
        figure(results, f"false roll-backs at 20 canaries a week, {load} load")
        for load in ("moderate", "saturated")
    )

    assert (moderate["value"], moderate["met"], moderate["kind"]) == (0.0, True, "must")
    assert (saturated["value"], saturated["met"]) == (1.0, False)


def test_a_slower_canary_that_was_let_through_took_for_ever() -> None:
    half = [a_day_of_canaries("canary-moderate-10", list(range(1, 11)))]
    fewer = [a_day_of_canaries("canary-moderate-10", [5] * 9)]

    assert figure(half, "canary +10 % noticed, p50")["value"] == 10.0
    assert figure(fewer, "canary +10 % noticed, p50")["value"] == math.inf


def test_what_was_not_run_is_not_met() -> None:
    found = figures([a_cell("ours")])

    for name in ("latency of bandit over ours", "wrong table at peak fixed, p95"):
        one = next(figure for figure in found if figure["name"] == name)
        assert one["value"] is None
        assert not one["met"]


def test_what_never_happened_is_null_in_the_file_which_any_reader_of_json_takes(tmp_path: Path) -> None:
    found = figures(
        [
            a_cell("static-2", scenario="canary-moderate-10", canary={"canaries": 20, "minutes": []}),
            *(a_cell(policy) for policy in ("ours", "oracle", "hard-off")),
        ]
    )

    write(tmp_path / "tuner.json", [a_cell("ours", switches=1.0)], found, {})

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    body = json.loads((tmp_path / "tuner.json").read_text(), parse_constant=refuse)
    (never,) = [one for one in body["figures"] if one["name"] == "canary +10 % noticed, p50"]
    assert (never["value"], never["met"]) == (None, False)
