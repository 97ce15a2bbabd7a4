"""Hard-off on a real cluster: what the tuner decided becomes pods without a proposer, and ends when told.

That it is decided takes hours of load and is tested in numbers (`unit/tuning/test_hard_off.py`). Here the
next leader finds the decision in the pool's memory, as after a restart.
"""

import time
from dataclasses import replace
from typing import Any

import pytest
import yaml
from tests.e2e.support import (
    Kube,
    Release,
    Users,
    engine_pods,
    is_ready,
    pool_status,
    simulated,
    wait_for,
    wait_ready,
)

from specfleet.api.kinds import TUNER_MANAGER
from specfleet.api.validation import validate
from specfleet.controller.fleet import MEMORY_KEY
from specfleet.planning.served import proposer_key
from specfleet.tuning.memory import from_json, to_json
from specfleet.tuning.unloaded import Unloaded

pytestmark = [pytest.mark.timeout(600), pytest.mark.alone]

DAY = 24 * 3600.0
TABLE = [{"depth": 4}]


def memory_of(kube: Kube, namespace: str) -> dict[str, Any] | None:
    return kube.get("configmap", namespace, "chat-main-tuning")


def remember_hard_off(kube: Kube, namespace: str) -> None:
    """Write the decision where the tuner keeps it, as the tuner."""
    live, config_map = kube.get("specdep", namespace, "chat"), memory_of(kube, namespace)
    assert live is not None and config_map is not None
    memory = from_json(config_map["data"][MEMORY_KEY])
    assert memory is not None
    unloaded = Unloaded(proposer_key(validate(live)), time.time(), DAY, "drafts do not pay", ())
    config_map["data"] = {MEMORY_KEY: to_json(replace(memory, unloaded=unloaded))}
    del config_map["metadata"]["resourceVersion"]
    arguments = ("--server-side", f"--field-manager={TUNER_MANAGER}", "-f", "-")
    kube.run("apply", *arguments, stdin=yaml.safe_dump(config_map))


def methods(kube: Kube, namespace: str) -> set[str] | None:
    """The methods of all pods, once each of them serves."""
    pods = engine_pods(kube, namespace, "chat")
    if not pods or not all(map(is_ready, pods)):
        return None
    arguments = [pod["spec"]["containers"][0]["args"] for pod in pods]
    return {one[one.index("--method") + 1] for one in arguments}


def test_pods_serve_without_their_proposer_until_the_user_leaves_it_to_the_tuner_no_more(
    kube: Kube, release: Release, namespace: str
) -> None:
    kube.apply(simulated(namespace, "chat"))
    wait_ready(kube, namespace, "chat")
    # A new pin is a push, and a push is remembered.
    kube.apply(simulated(namespace, "chat", tuning={"mode": "Enforce", "schedule": TABLE}))
    wait_for("the tuner remembers", lambda: memory_of(kube, namespace), seconds=60)
    kube.apply(simulated(namespace, "chat"))
    with release.without_operator():
        remember_hard_off(kube, namespace)

    with Users(kube, [(namespace, "chat")]) as users:
        wait_for("no pod has a proposer", lambda: methods(kube, namespace) == {"none"}, seconds=180)
        wait_for(
            "status says so",
            lambda: pool_status(kube, namespace, "chat").get("state") == "HardOff",
            seconds=60,
        )
        said = pool_status(kube, namespace, "chat")["hardOff"]
        kube.patch("specdep", namespace, "chat", {"spec": {"tuning": {"mode": "Recommend"}}})
        wait_for("the proposer is back", lambda: methods(kube, namespace) == {"ngram"}, seconds=180)
        wait_for("status says so", lambda: "hardOff" not in pool_status(kube, namespace, "chat"), seconds=60)

    assert (said["phase"], said["reason"]) == ("InForce", "drafts do not pay")
    assert users.completed > 0
    assert users.failures == []
