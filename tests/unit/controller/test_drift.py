"""What counts as drift: a change of what reconcile applied, and nothing else."""

from typing import Any

import pytest

from specfleet.api.kinds import CONFIG_MAP, SERVICE
from specfleet.controller.drift import digests
from specfleet.planning.observed import ObjectKey

APPLIED: dict[str, Any] = {
    "metadata": {"name": "chat", "uid": "1", "annotations": {"specfleet.dev/applied-hash": "h"}},
    "spec": {"ports": [{"port": 8000}]},
}
KEY: ObjectKey = (SERVICE, "chat")
TABLE = {"sglang-adaptive.json": '{"1": 5}'}


def test_a_changed_spec_is_drift() -> None:
    changed = {**APPLIED, "spec": {"ports": [{"port": 9000}]}}

    assert digests({KEY: APPLIED}) != digests({KEY: changed})


def test_a_lost_hash_is_drift() -> None:
    bare = {**APPLIED, "metadata": {"name": "chat", "uid": "1"}}

    assert digests({KEY: APPLIED}) != digests({KEY: bare})


def test_the_tuners_own_memory_is_no_drift() -> None:
    memory = {"metadata": {"name": "chat-main-tuning", "uid": "2"}, "data": {"memory.json": "{}"}}

    assert digests({KEY: APPLIED, (CONFIG_MAP, "chat-main-tuning"): memory}) == digests({KEY: APPLIED})


@pytest.mark.parametrize("data", [{"sglang-adaptive.json": "{"}, {}], ids=["edited", "removed"])
def test_a_file_that_is_not_as_we_wrote_it_is_drift(data: dict[str, str]) -> None:
    assert digests({KEY: {**APPLIED, "data": TABLE}}) != digests({KEY: {**APPLIED, "data": data}})


def test_a_schedule_that_the_tuner_writes_is_no_drift() -> None:
    pushed = {**APPLIED, "data": {**TABLE, "schedule.json": "{}"}}

    assert digests({KEY: pushed}) == digests({KEY: {**APPLIED, "data": TABLE}})
