"""Everything that is rendered is found by the selectors in use (ai-dynamo/dynamo#13238)."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.planning.builders import NOON, a_configuration, a_pool, a_resource, an_empty_cluster

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD_MONITOR,
    SERVICE,
    Kind,
)
from specfleet.planning.names import selector
from specfleet.planning.plan import plan

POOLS = ("interactive", "batch")


def objects(kind: Kind) -> dict[str, dict[str, Any]]:
    resource = a_resource(*(a_pool(name) for name in POOLS))
    found = plan(resource, a_configuration(), an_empty_cluster(pod_monitors_served=True), NOON)
    return {name: desired.body for desired in found.desired for of, name in [desired.key] if of == kind}


def pod_labels(pool: str) -> dict[str, str]:
    labels: dict[str, str] = objects(DEPLOYMENT)[f"chat-{pool}-active"]["spec"]["template"]["metadata"][
        "labels"
    ]
    return labels


def selects(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return bool(wanted) and wanted.items() <= labels.items()


@pytest.mark.fault("ai-dynamo/dynamo#13238")
@pytest.mark.parametrize("pool", POOLS)
def test_each_selector_finds_the_pods_of_its_own_pool_only(pool: str) -> None:
    (other,) = set(POOLS) - {pool}
    selectors = (
        objects(DEPLOYMENT)[f"chat-{pool}-active"]["spec"]["selector"]["matchLabels"],
        objects(SERVICE)[f"chat-{pool}"]["spec"]["selector"],
        objects(DISRUPTION_BUDGET)[f"chat-{pool}"]["spec"]["selector"]["matchLabels"],
    )

    for wanted in selectors:
        assert selects(wanted, pod_labels(pool))
        assert not selects(wanted, pod_labels(other))


@pytest.mark.fault("kserve/kserve#5725")
@pytest.mark.parametrize("pool", POOLS)
def test_the_service_and_the_monitor_of_the_resource_find_the_pods_of_every_pool(pool: str) -> None:
    assert selects(objects(SERVICE)["chat"]["spec"]["selector"], pod_labels(pool))
    assert selects(objects(POD_MONITOR)["chat"]["spec"]["selector"]["matchLabels"], pod_labels(pool))


@pytest.mark.fault("kserve/kserve#5208")
def test_services_and_the_monitor_name_a_port_that_the_container_has() -> None:
    pod = objects(DEPLOYMENT)["chat-batch-active"]["spec"]["template"]["spec"]

    (port,) = pod["containers"][0]["ports"]

    assert port["containerPort"] == 8000
    for service in objects(SERVICE).values():
        assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert objects(POD_MONITOR)["chat"]["spec"]["podMetricsEndpoints"][0]["port"] == port["name"]


def test_the_monitor_copies_the_label_that_queries_are_scoped_by() -> None:
    scope = Configuration.model_fields["metrics_scope"].default

    (copied,) = objects(POD_MONITOR)["chat"]["spec"]["podTargetLabels"]

    assert copied in pod_labels("batch")
    # Prometheus turns every character that a label name cannot have into an underscore.
    assert scope.startswith(copied.replace(".", "_").replace("/", "_") + "!=")


def test_the_monitor_scrapes_at_the_pace_of_the_tuner() -> None:
    configuration = a_configuration(tuning={"scrapeIntervalSeconds": 2.5})
    found = plan(a_resource(), configuration, an_empty_cluster(pod_monitors_served=True), NOON)

    (monitor,) = [desired.body for desired in found.desired if desired.kind == POD_MONITOR]

    assert monitor["spec"]["podMetricsEndpoints"][0]["interval"] == "2500ms"


def test_reconcile_finds_every_child_again_by_its_label() -> None:
    for kind in (DEPLOYMENT, SERVICE, DISRUPTION_BUDGET, POD_MONITOR):
        for body in objects(kind).values():
            assert selects(selector("chat"), body["metadata"]["labels"])


@pytest.mark.parametrize("pool", POOLS)
def test_pods_mount_the_schedule_of_their_own_pool(pool: str) -> None:
    pod = objects(DEPLOYMENT)[f"chat-{pool}-active"]["spec"]["template"]["spec"]

    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "schedule"]

    assert volume["configMap"]["name"] == f"chat-{pool}-active-schedule"
    assert volume["configMap"]["name"] in objects(CONFIG_MAP)
