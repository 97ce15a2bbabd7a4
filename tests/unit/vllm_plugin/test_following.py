"""The depth of a step is the file's, for the requests that decode in it."""

import time
import urllib.request
from os import environ
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.vllm_plugin.conftest import Make
from tests.unit.vllm_plugin.standin import MAX_DEPTH, SEATS, Request, Scheduler, advance, write


def page() -> dict[str, float]:
    """Read the plug-in's port as a scraper does."""
    with urllib.request.urlopen(f"http://127.0.0.1:{environ['SPECFLEET_METRICS_PORT']}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        sample.name + "".join(f"{{{label}={value}}}" for label, value in sample.labels.items()): sample.value
        for family in families
        for sample in family.samples
    }


def push(scheduler: Any, file: Path, table: list[dict[str, int]], version: int) -> None:
    write(file, table, version)
    deadline = time.monotonic() + 5
    while page().get("specfleet_schedule_version{fence=1}") != version:
        assert time.monotonic() < deadline, page()
        time.sleep(0.02)


def live() -> dict[str, float]:
    return {name: value for name, value in page().items() if name.startswith("specfleet_schedule_live")}


def test_a_file_that_was_there_at_the_start_is_in_force_for_the_first_step(make: Make, file: Path) -> None:
    write(file, [{"depth": 2}], version=7)

    scheduler = make(running=[Request("a")])

    assert page()["specfleet_schedule_version{fence=1}"] == 7
    assert advance(scheduler).num_spec_tokens_to_schedule == 2
    assert live() == {"specfleet_schedule_live{reason=}": 1}


def test_an_idle_engine_reports_a_push_and_its_next_step_uses_it(make: Make, file: Path) -> None:
    write(file, [{"depth": 5}])
    scheduler = make()

    push(scheduler, file, [{"depth": 0}], version=2)
    scheduler.running.append(Request("a"))

    assert advance(scheduler).num_spec_tokens_to_schedule == 0


def test_the_table_is_asked_for_decoding_requests_only(make: Make, file: Path) -> None:
    write(file, [{"maxRequests": 2, "depth": 4}, {"depth": 1}])
    reading = [Request(f"new-{number}", is_prefill_chunk=True) for number in range(9)]
    scheduler = make(running=[Request("a"), Request("b"), *reading])

    # Eleven are scheduled, two of them decode.
    assert advance(scheduler).num_spec_tokens_to_schedule == 4
    # Now all eleven do.
    assert advance(scheduler).num_spec_tokens_to_schedule == 1


def test_one_request_more_over_a_border_does_not_flip_the_depth_at_once(make: Make, file: Path) -> None:
    write(file, [{"maxRequests": 10, "depth": 3}, {"depth": 1}])
    scheduler = make(running=[Request(str(number)) for number in range(10)])
    advance(scheduler)
    scheduler.running.append(Request("one more"))

    depths = [advance(scheduler).num_spec_tokens_to_schedule for _ in range(17)]

    assert depths == [3] * 16 + [1]


def test_vllms_list_keeps_its_length(make: Make, file: Path) -> None:
    write(file, [{"depth": 3}])
    scheduler = make(running=[Request("a")])

    advance(scheduler)

    assert scheduler.dynamic_sd_lookup == [3] * (SEATS + 1)


def test_without_a_file_vllms_own_schedule_stays(make: Make, file: Path) -> None:
    own = [0, 4, 3, *[2] * (SEATS - 2)]
    scheduler = make(running=[Request("a"), Request("b")], dynamic_sd_lookup=list(own))

    assert advance(scheduler).num_spec_tokens_to_schedule == 3
    assert scheduler.dynamic_sd_lookup == own
    assert page()["specfleet_schedule_version{fence=0}"] == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "not_json"), ('{"format": 2}', "unknown_format"), (None, "file_gone")],
)
def test_a_bad_file_is_counted_and_changes_nothing(
    make: Make, file: Path, text: str | None, reason: str
) -> None:
    write(file, [{"depth": 2}])
    scheduler = make(running=[Request("a")])

    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    deadline = time.monotonic() + 5
    while page()[f"specfleet_schedule_rejected_total{{reason={reason}}}"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)

    assert advance(scheduler).num_spec_tokens_to_schedule == 2


def test_a_depth_above_the_engines_is_refused(make: Make, file: Path) -> None:
    write(file, [{"depth": MAX_DEPTH}])
    scheduler = make(running=[Request("a")], num_spec_tokens=3, dynamic_sd_lookup=[0, *[3] * SEATS])

    assert advance(scheduler).num_spec_tokens_to_schedule == 3
    assert page()["specfleet_schedule_rejected_total{reason=depth_out_of_range}"] == 1


class Newer(Scheduler):
    engine_version = "0.34.0"


class Renamed(Scheduler):
    step_names = Scheduler.step_names - {"num_spec_tokens_to_schedule"}


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        (Newer, {}, "engine_version"),
        (Renamed, {}, "engine_internals"),
        (Scheduler, {"dynamic_sd_lookup": None}, "no_startup_schedule"),
    ],
)
def test_an_engine_that_does_not_fit_serves_as_it_was_started_and_says_why(
    make: Make, file: Path, kind: type, fields: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(file, [{"depth": 1}])

    scheduler = make(kind, running=[Request("a")], **fields)

    assert advance(scheduler).num_spec_tokens_to_schedule == MAX_DEPTH
    assert live() == {f"specfleet_schedule_live{{reason={reason}}}": 0}
    assert not [name for name in page() if name.startswith("specfleet_schedule_version")]


def test_without_a_file_to_follow_the_page_says_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPECFLEET_SCHEDULE_FILE")

    make()

    assert live() == {"specfleet_schedule_live{reason=no_file_named}": 0}


def test_an_error_of_the_plugin_reaches_nobody_and_switches_it_off(
    make: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, [{"depth": 2}])
    scheduler = make(running=[Request("a")])
    advance(scheduler)

    monkeypatch.setattr(scheduler, "get_num_unfinished_requests", None)  # no release has it so
    step = advance(scheduler)

    assert step.num_spec_tokens_to_schedule == 2
    assert live() == {"specfleet_schedule_live{reason=plugin_failed}": 0}
    assert not [name for name in page() if name.startswith("specfleet_schedule_version")]
    write(file, [{"depth": 4}], version=2)
    time.sleep(0.7)  # longer than the reader waits between two looks
    assert advance(scheduler).num_spec_tokens_to_schedule == 2


def test_a_taken_port_costs_the_page_and_nothing_else(make: Make, file: Path) -> None:
    write(file, [{"depth": 2}])
    make()

    second = make(running=[Request("a")])

    assert advance(second).num_spec_tokens_to_schedule == 2
