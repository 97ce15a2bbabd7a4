"""What counts as drift: a change of what reconcile applied, and nothing else."""

from typing import Any

from specfleet.api.kinds import CONFIG_MAP, SERVICE
from specfleet.controller.drift import digests
from specfleet.planning.observed import ObjectKey

APPLIED: dict[str, Any] = {
    "metadata": {"name": "chat", "uid": "1", "annotations": {"specfleet.dev/applied-hash": "h"}},
    "spec": {"ports": [{"port": 8000}]},
}
KEY: ObjectKey = (SERVICE, "chat")


def test_a_changed_spec_is_drift() -> None:
    changed = {**APPLIED, "spec": {"ports": [{"port": 9000}]}}

    assert digests({KEY: APPLIED}) != digests({KEY: changed})


def test_a_lost_hash_is_drift() -> None:
    bare = {**APPLIED, "metadata": {"name": "chat", "uid": "1"}}

    assert digests({KEY: APPLIED}) != digests({KEY: bare})


def test_the_tuners_own_memory_is_no_drift() -> None:
    memory = {"metadata": {"name": "chat-main-tuning", "uid": "2"}, "data": {"memory.json": "{}"}}

    assert digests({KEY: APPLIED, (CONFIG_MAP, "chat-main-tuning"): memory}) == digests({KEY: APPLIED})
