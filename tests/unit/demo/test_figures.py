"""The demo's verdict: each figure moves when what it is about does, and a figure without data is not met."""

from typing import Any

import pytest
from dev.demo.figures import figures
from dev.demo.scores import score
from dev.figures import missed
from records import a_record, crowded, pod, request, sample


def value(record: dict[str, Any], name: str) -> float | None:
    (found,) = (figure for figure in figures(record) if figure["name"] == name)
    result: float | None = found["value"]
    return result


def test_a_good_run_misses_nothing() -> None:
    assert missed(figures(a_record())) == []


def test_depth_and_time_of_the_first_phase_come_from_the_counters_of_one_window() -> None:
    assert value(a_record(), "mean depth, repetitive text") == pytest.approx(5.0)
    # 50 ms a token where the replay at depth 0 took 100 ms.
    assert value(a_record(), "time per output token, repetitive text, of speculation off") == pytest.approx(
        0.5
    )


def test_the_last_phase_is_back_when_a_whole_window_is_deep_and_fast() -> None:
    # Depth 5 from 150 s on. The window from 140 s to 160 s has 111 steps at depth 1 and 200 at depth 5: mean
    # depth 3.6, and 20 s for 311 tokens are 0.64 of 100 ms. The last phase begins at 100 s.
    assert value(a_record(), "back at both in the last phase") == pytest.approx(60.0)


def test_a_last_phase_that_stays_shallow_never_comes_back() -> None:
    record = a_record()
    record["samples"] = [
        sample(
            one["time"],
            one["stage"],
            pod(one["time"], depth=1, token_seconds=0.09),
            conditions=one["conditions"],
        )
        for one in record["samples"]
    ]

    assert value(record, "back at both in the last phase") is None
    assert "back at both in the last phase" in missed(figures(record))


def times(record: dict[str, Any], arm: str, part: str, *per_round: dict[str, float]) -> None:
    """Let an arm take so many seconds per token on each prompt, round by round."""
    for one in record["replays"]:
        if (one["arm"], one["part"]) == (arm, part):
            one["secondsPerToken"] = per_round[one["round"]]


AGAIN = "settled schedule of best pinned depth, phase repetitive-again"


def test_the_settled_schedule_is_judged_against_the_best_pin_and_not_the_deepest() -> None:
    record = a_record()
    times(record, "depth-3", "picking", *2 * [{"rows": 0.04, "tests": 0.04}])
    for one in record["replays"]:
        if (one["arm"], one["part"]) == ("depth-5", "judging"):
            one["arm"] = "depth-3"
    times(record, "depth-3", "judging", *2 * [{"rows": 0.04, "tests": 0.04}])

    # 40 ms a token against 52 ms.
    assert value(record, AGAIN) == pytest.approx(0.04 / 0.052)


def test_a_settled_schedule_that_is_the_best_pinned_depth_is_as_good_as_itself() -> None:
    assert value(a_record(), "settled schedule of best pinned depth, phase repetitive") == 1.0


def test_a_depth_that_was_lucky_while_it_was_picked_is_judged_by_other_rounds() -> None:
    record = a_record()
    times(record, "depth-5", "picking", *2 * [{"rows": 0.03, "tests": 0.03}])

    # Picked with 30 ms, judged with the 50 ms that it took beside the settled schedule.
    assert value(record, AGAIN) == pytest.approx(50 / 52)


def test_a_burst_that_hits_one_pair_of_many_moves_nothing() -> None:
    record = a_record()
    usual = {"rows": 0.052, "tests": 0.052, "settings": 0.052}
    times(record, "depth-5", "judging", *2 * [dict.fromkeys(usual, 0.05)])
    times(record, "settled-repetitive-again", "judging", usual | {"tests": 0.5}, usual)

    assert value(record, AGAIN) == pytest.approx(50 / 52)


def test_many_users_are_judged_by_completed_requests_per_second() -> None:
    record = a_record()
    crowded(record, {"depth-0": 10.0, "depth-3": 10.0, "depth-5": 8.0, "settled-repetitive-again": 9.0})

    assert value(record, AGAIN) == pytest.approx(8 / 9)
    assert score(record, "repetitive", "depth-5") == pytest.approx(10 / 8.0)


def test_how_much_rounds_differ_is_told_beside_the_ratio() -> None:
    record = a_record()
    crowded(record, {"depth-0": 10.0, "depth-3": 10.0, "depth-5": 9.0, "settled-repetitive-again": 10.0})
    late = [one for one in record["replays"] if (one["part"], one["round"]) == ("judging", 1)]
    for one in late:
        one["counters"] = {**one["counters"], "seconds": 11.0 if one["arm"] == "depth-5" else 10.0}

    (found,) = (one for one in figures(record) if one["name"] == AGAIN)
    # Ratios .9 and 1.1: their mean is 1, their standard deviation .2 / sqrt(2), that of the mean .1.
    assert (found["value"], found["standardError"]) == pytest.approx((1.0, 0.1))


def test_pods_that_gave_no_token_in_a_turn_are_not_compared_in_it() -> None:
    record = a_record()
    crowded(record, {"depth-0": 10.0, "depth-3": 10.0, "depth-5": 8.0, "settled-repetitive-again": 9.0})
    for one in record["replays"]:
        if (one["part"], one["round"]) == ("judging", 0):
            one["counters"] = {**one["counters"], "tokens": 0.0}

    assert value(record, AGAIN) == pytest.approx(8 / 9)


def test_a_replay_that_is_missing_is_not_a_pass() -> None:
    record = a_record()
    record["replays"] = [one for one in record["replays"] if one["arm"] != "settled-repetitive-again"]

    assert AGAIN in missed(figures(record))


def test_one_text_that_differs_from_depth_zero_is_found() -> None:
    record = a_record()
    record["requests"].append(request("repetitive", "rows", "abd"))

    assert value(record, "texts that differ from speculation off") == 1


def test_a_prompt_without_a_reference_leaves_the_texts_unjudged() -> None:
    record = a_record()
    record["requests"].append(request("repetitive", "tests", "xyz"))

    assert "texts that differ from speculation off" in missed(figures(record))


def test_a_failed_request_counts_wherever_it_was_made() -> None:
    record = a_record()
    record["requests"].append(request("repetitive/depth-5", "rows", "", error="HTTP 503"))

    assert value(record, "failed requests") == 1


def test_pushes_count_from_the_start_of_the_load_within_one_hour() -> None:
    record = a_record()
    for one in record["samples"]:
        if one["time"] >= 50:
            one["schedulePushes"] = {"push": 9.0, "probe": 40.0}

    assert value(record, "pushes beside probes while the load ran") == 8
    assert "pushes beside probes while the load ran" in missed(figures(record))


def test_a_new_version_in_the_outage_is_a_change() -> None:
    record = a_record()
    for one in record["samples"]:
        if one["time"] > 230:
            one["pods"]["pod-a"]["scheduleVersion"] = 8.0

    assert value(record, "schedule changes while Prometheus was cut off") == 1


def test_a_status_that_says_nothing_about_the_outage_is_not_met() -> None:
    record = a_record()
    for one in record["samples"]:
        one["conditions"]["MetricsAvailable"]["status"] = "True"

    assert "status says that and why metrics are missing" in missed(figures(record))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"uid-a": 1, "uid-operator": 0}, id="a-container-restarted"),
        pytest.param({"uid-b": 0, "uid-operator": 0}, id="a-pod-was-replaced"),
    ],
)
def test_restarts_and_replaced_pods_are_found(after: dict[str, int]) -> None:
    record = a_record()
    record["samples"][-1]["restarts"] = after

    assert value(record, "restarts") == 1


def test_samples_of_the_replays_do_not_count_as_the_run() -> None:
    record = a_record()
    later = sample(900.0, "replay/repetitive/depth-0", pod(900.0, depth=0, token_seconds=0.1))
    later["schedulePushes"] = {"push": 50.0}
    record["samples"].append(later)

    assert missed(figures(record)) == []
