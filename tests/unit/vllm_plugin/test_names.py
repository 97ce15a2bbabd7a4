"""The names that plug-in and operator rely on, in every release that the plug-in says it knows.

The fixtures are read from released sources by dev/captures/vllm_names.py; nothing of 0.33 was run.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from specfleet.engines.metrics_vllm import VLLM_METRICS
from specfleet_vllm import engine
from specfleet_vllm.compatibility import KNOWN_VERSIONS, SCHEDULER_NAMES, STEP_NAMES

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "vllm"
RELEASES = sorted(FIXTURES.glob("names-*.json"))
# What each Protocol of the plug-in stands for in vLLM.
STANDS_FOR = {
    "Request": "Request",
    "Scheduled": "SchedulerOutput",
    "ModelOutput": "ModelRunnerOutput",
    "_Delivered": "EngineCoreOutput",
    "Deliveries": "EngineCoreOutputs",
    "Scheduler": "Scheduler",
}


@pytest.fixture(params=RELEASES, ids=lambda path: path.stem)
def release(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text(encoding="utf-8"))
    return found


def names_of(release: dict[str, Any], name: str) -> set[str]:
    body = release["classes"][name]
    return {*body["fields"], *(one.removesuffix("()") for one in body if one.endswith("()"))}


def test_each_known_version_was_read() -> None:
    read = {".".join(path.stem.removeprefix("names-").split(".")[:2]) for path in RELEASES}

    assert read == set(KNOWN_VERSIONS)


@pytest.mark.parametrize(("protocol", "name"), STANDS_FOR.items())
def test_every_name_that_the_plug_in_uses_is_in_vllms_class(
    release: dict[str, Any], protocol: str, name: str
) -> None:
    used = set(getattr(engine, protocol).__annotations__)

    assert used
    assert used <= names_of(release, name)


def test_what_is_looked_for_at_the_start_is_there(release: dict[str, Any]) -> None:
    assert set(SCHEDULER_NAMES) <= names_of(release, "Scheduler")
    assert set(STEP_NAMES) <= names_of(release, "SchedulerOutput")


def test_the_wrapped_methods_are_the_scheduler_s_own_and_give_outputs_in_that_order(
    release: dict[str, Any],
) -> None:
    scheduler = release["classes"]["Scheduler"]

    assert {"schedule()", "update_from_output()", "shutdown()"} <= scheduler.keys()
    assert scheduler["update_from_output()"][:2] == ["scheduler_output", "model_runner_output"]
    # The asynchronous one must not step round them.
    assert not {"schedule()", "update_from_output()"} & release["classes"]["AsyncScheduler"].keys()


def test_vllm_says_itself_which_scheduler_it_would_take(release: dict[str, Any]) -> None:
    config = release["classes"]["SchedulerConfig"]

    assert config["get_scheduler_cls()"] == []
    assert {"scheduler_cls", "async_scheduling"} <= set(config["fields"])


@pytest.mark.parametrize("metric", VLLM_METRICS, ids=lambda metric: metric.name)
def test_every_metric_that_is_read_is_written_by_that_release(release: dict[str, Any], metric: Any) -> None:
    # prometheus_client appends _total to a counter.
    written = {metric.name.removesuffix("_total"), metric.name}

    assert written & set(release["metrics"])
