"""What a plan applies when something is there already: only what differs, and never a pod for nothing."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.planning.builders import (
    ACTIVE,
    NOON_TEXT,
    a_pod,
    a_pool,
    a_resource,
    after,
    body,
    changed,
    keys,
    planned,
    reasons,
    running,
    scaled_by,
    with_object,
    with_pods,
)

from specfleet.api.kinds import CONFIG_MAP, DEPLOYMENT, DISRUPTION_BUDGET, SERVICE, TUNER_MANAGER
from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.observed import Observed
from specfleet.planning.plan import wanted_keys


def test_what_is_applied_already_is_not_applied_again() -> None:
    assert planned(a_resource(), running(a_resource())).desired == ()


def test_a_full_pass_applies_everything_of_reconcile() -> None:
    found = planned(a_resource(), replace(running(a_resource()), full=True))

    memory = (CONFIG_MAP, "chat-interactive-tuning")  # the tuner's
    assert set(keys(found)) == set(wanted_keys(a_resource(), False)) - {memory}


def test_a_changed_field_applies_only_the_objects_it_is_in() -> None:
    changed_spec = a_resource(a_pool(template={"labels": {"team": "search"}}))

    assert keys(planned(changed_spec, running(a_resource()))) == [ACTIVE]


def test_a_new_number_of_replicas_is_applied_and_rolls_nothing() -> None:
    before = running(a_resource(a_pool(replicas=2)))

    found = body(planned(a_resource(a_pool(replicas=3)), before), ACTIVE)

    assert found["spec"]["replicas"] == 3
    assert found["spec"]["template"] == before.objects[ACTIVE]["spec"]["template"]


def test_replicas_that_a_human_scaled_go_back_to_the_spec() -> None:
    observed = scaled_by("kubectl", running(a_resource()), ACTIVE[1], 5)

    assert body(planned(a_resource(), observed), ACTIVE)["spec"]["replicas"] == 2


def test_objectives_tuning_and_metrics_sources_touch_no_object() -> None:
    live = a_resource(
        a_pool(objectives={"queueDelay": "1s"}, tuning={"mode": "Observe", "schedule": [{"depth": 1}]}),
        objectives={"timePerOutputToken": "40ms"},
        tuning={"mode": "Enforce", "paused": True, "maxPushesPerHour": 2},
    )

    assert planned(live, running(a_resource())).desired == ()


UPGRADED = {"images": {"builtin": "example.test/engine:2", "simulated": "example.test/simulated:2"}}


def with_image(image: str) -> SpeculativeDeployment:
    return a_resource(engine={"type": "builtin", "image": image})


def image(deployment: dict[str, Any]) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def test_a_new_default_image_rolls_no_pod() -> None:
    assert planned(a_resource(), running(a_resource()), **UPGRADED).desired == ()


def test_pods_take_the_new_default_image_with_the_next_change_of_the_engine() -> None:
    changed_spec = a_resource(engine={"type": "builtin", "maxNumSeqs": 32})

    found = body(planned(changed_spec, running(a_resource()), **UPGRADED), ACTIVE)

    assert image(found) == "example.test/engine:2"


def test_an_image_in_the_resource_is_taken_at_once() -> None:
    found = body(planned(with_image("example.test/own:7"), running(a_resource())), ACTIVE)

    assert image(found) == "example.test/own:7"


def test_an_image_that_leaves_the_resource_leaves_the_pods_too() -> None:
    found = body(planned(a_resource(), running(with_image("example.test/own:7"))), ACTIVE)

    assert image(found) == "example.test/engine:1"


def test_a_default_that_the_resource_named_before_is_kept_like_any_default() -> None:
    named = running(with_image("example.test/engine:1"))

    no_longer_named = after(planned(a_resource(), named), named)

    assert planned(a_resource(), no_longer_named, **UPGRADED).desired == ()


def as_an_older_release_left_it(observed: Observed) -> Observed:
    """The cluster before Deployments said that the spec names their image."""

    def strip(live: dict[str, Any]) -> None:
        live["metadata"]["annotations"] = {"specfleet.dev/applied-hash": "of-an-older-release"}

    return changed(observed, *ACTIVE, edit=strip)


def test_an_image_that_an_older_release_applied_is_noted_and_rolls_no_pod() -> None:
    resource = with_image("example.test/own:7")
    before = as_an_older_release_left_it(running(resource))

    found = body(planned(resource, before), ACTIVE)

    assert found["metadata"]["annotations"]["specfleet.dev/named-image"] == "example.test/own:7"
    assert found["spec"] == before.objects[ACTIVE]["spec"]


def test_an_image_of_which_nobody_knows_who_named_it_is_kept() -> None:
    before = as_an_older_release_left_it(running(with_image("example.test/own:7")))

    found = body(planned(a_resource(), before), ACTIVE)

    assert image(found) == "example.test/own:7"


def waiting(reason: str, **container: Any) -> dict[str, Any]:
    return {"ready": False, "state": {"waiting": {"reason": reason}}, **container}


NOT_PULLED = waiting("ImagePullBackOff")
NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([a_pod(container=NOT_PULLED)], id="image-not-pulled"),
        pytest.param([a_pod(container=waiting("CreateContainerConfigError"))], id="container-not-created"),
        pytest.param(
            [a_pod("a", container=NOT_PULLED), a_pod("b", conditions=[NO_NODE], phase="Pending")],
            id="another-waits-for-a-node",
        ),
    ],
)
def test_pods_that_never_start_take_a_corrected_default_image(pods: list[dict[str, Any]]) -> None:
    hanging = with_pods(running(a_resource()), *pods)

    found = body(planned(a_resource(), hanging, **UPGRADED), ACTIVE)

    assert image(found) == "example.test/engine:2"


OLDER = {"specfleet.dev/fingerprint": "of-an-older-spec"}
ENDED = {"terminated": {"exitCode": 137, "reason": "Error"}}


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([a_pod(container=waiting("ContainerCreating"))], id="first-start"),
        pytest.param([a_pod(container=waiting("CrashLoopBackOff", lastState=ENDED))], id="crash"),
        pytest.param([a_pod(container=waiting("ImagePullBackOff", lastState=ENDED))], id="restart"),
        pytest.param([a_pod(container=waiting("ImagePullBackOff", restartCount=1))], id="restart-of-a-node"),
        pytest.param([a_pod(container=NOT_PULLED, since=NOON_TEXT)], id="failure-of-a-moment"),
        pytest.param(
            [
                a_pod("a", container=NOT_PULLED),
                a_pod("b", container={"ready": True, "state": {"running": {}}}),
            ],
            id="one-of-two",
        ),
        pytest.param([a_pod(container=NOT_PULLED, deletionTimestamp=NOON_TEXT)], id="deletion"),
        pytest.param([a_pod(container=NOT_PULLED, pool="batch")], id="pod-of-another-pool"),
        pytest.param([a_pod(container=NOT_PULLED, labels=OLDER)], id="pod-of-an-older-spec"),
    ],
)
def test_no_other_trouble_of_pods_brings_in_a_new_default_image(pods: list[dict[str, Any]]) -> None:
    troubled = with_pods(running(a_resource()), *pods)

    assert planned(a_resource(), troubled, **UPGRADED).desired == ()


def test_a_pool_that_is_gone_from_the_spec_takes_its_objects_along_and_no_others() -> None:
    observed = running(a_resource(a_pool("interactive"), a_pool("batch")))
    labels = {"specfleet.dev/deployment": "chat", "specfleet.dev/pool": "batch"}
    owner = observed.objects[ACTIVE]["metadata"]["ownerReferences"]
    observed = with_object(observed, CONFIG_MAP, "chat-batch-tuning", labels=labels, ownerReferences=owner)
    observed = with_object(observed, CONFIG_MAP, "somebody-elses", labels=labels)

    found = planned(a_resource(a_pool("interactive")), observed)

    assert {(removal.kind, removal.name) for removal in found.removals} == {
        (DEPLOYMENT, "chat-batch-active"),
        (SERVICE, "chat-batch"),
        (DISRUPTION_BUDGET, "chat-batch"),
        (CONFIG_MAP, "chat-batch-active-schedule"),
        (CONFIG_MAP, "chat-batch-tuning"),
    }
    assert found.desired == ()


def test_what_a_pool_left_is_found_by_its_name_when_somebody_took_labels_and_owner_off() -> None:
    def strip(live: dict[str, Any]) -> None:
        del live["metadata"]["labels"], live["metadata"]["ownerReferences"]

    observed = changed(running(a_resource()), *ACTIVE, edit=strip)
    resource = a_resource(a_pool("batch"), status={"pools": [{"name": "interactive"}]})

    found = planned(resource, observed)

    assert ACTIVE in wanted_keys(resource, False)
    assert ACTIVE in [(removal.kind, removal.name) for removal in found.removals]


LIMITED = {"limits": {"maxReplicas": 1}}
NO_IMAGE = {"images": {"builtin": "", "simulated": "example.test/simulated:1"}}
TWO_CARDS = {"type": "vllm", "tensorParallelSize": 2}
ONE_CARD = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


@pytest.mark.parametrize(
    ("reason", "pool", "engine", "configuration"),
    [
        ("LimitExceeded", a_pool("fast"), None, LIMITED),
        ("ImageMissing", a_pool("fast"), None, NO_IMAGE),
        ("TooFewGpus", a_pool("fast", template=ONE_CARD), TWO_CARDS, {}),
    ],
)
def test_a_renamed_pool_keeps_its_pods_while_the_new_name_is_refused(
    reason: str, pool: dict[str, Any], engine: dict[str, Any] | None, configuration: dict[str, Any]
) -> None:
    found = planned(a_resource(pool, engine=engine), running(a_resource()), **configuration)

    assert reason in reasons(found)
    assert (DEPLOYMENT, "chat-fast-active") not in keys(found)
    assert found.removals == ()


def test_a_pool_whose_new_name_is_somebody_elses_keeps_its_pods_until_the_name_is_free() -> None:
    before = running(a_resource())
    taken = with_object(before, DEPLOYMENT, "chat-fast-active")
    renamed = a_resource(a_pool("fast"))

    assert reasons(planned(renamed, taken)) == ["NameConflict"]
    assert planned(renamed, taken).removals == ()
    assert ACTIVE in [(removal.kind, removal.name) for removal in planned(renamed, before).removals]


def test_a_refusal_that_holds_no_pool_keeps_no_leftovers() -> None:
    renamed = a_resource(a_pool("fast"), tuning={"metricsSource": "elsewhere"})

    found = planned(renamed, running(a_resource()))

    assert reasons(found) == ["UnknownMetricsSource"]
    assert ACTIVE in [(removal.kind, removal.name) for removal in found.removals]


def test_the_tuners_memory_of_a_pool_that_stays_is_kept() -> None:
    observed = with_object(
        running(a_resource()),
        CONFIG_MAP,
        "chat-interactive-tuning",
        labels={"specfleet.dev/deployment": "chat", "specfleet.dev/pool": "interactive"},
        managedFields=[{"manager": TUNER_MANAGER}],
    )

    assert planned(a_resource(), observed).removals == ()
