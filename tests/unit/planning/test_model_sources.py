"""Where pods have their weights from: hubs, claims, images, the engine's image. Source: contracts.md."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.planning.builders import (
    ACTIVE,
    NOON,
    a_configuration,
    a_pod,
    a_pool,
    a_resource,
    after,
    an_empty_cluster,
    body,
    planned,
    reasons,
    with_pods,
)

from specfleet.api.kinds import DEPLOYMENT
from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.plan import plan

COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"
HEAD_COMMIT = "5f0b02c75b57c5855da9ae460ce51323ea669d8a"
HUB = {"modelHub": {"endpoint": "https://hub.example"}}


def a_hub_model(**fields: Any) -> dict[str, Any]:
    return {"uri": "hf://meta-llama/Llama-3.1-8B", "revision": COMMIT, **fields}


def a_hub_head(**fields: Any) -> dict[str, Any]:
    return {"method": "eagle3", "proposer": {"uri": "hf://org/head", "revision": HEAD_COMMIT, **fields}}


def pod_of(resource: SpeculativeDeployment, **configuration: Any) -> dict[str, Any]:
    found = plan(resource, a_configuration(**configuration), an_empty_cluster(), NOON)
    (live,) = [desired.body for desired in found.desired if desired.kind == DEPLOYMENT]
    spec: dict[str, Any] = live["spec"]["template"]["spec"]
    return spec


def containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in (*pod.get("initContainers", ()), *pod["containers"])}


def value_of(flag: str, container: dict[str, Any]) -> str:
    arguments: list[str] = container["args"]
    return arguments[arguments.index(flag) + 1]


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container.get("env", ())}


def test_a_model_of_a_hub_is_fetched_before_the_engine_starts_and_read_offline() -> None:
    pod = pod_of(a_resource(model=a_hub_model()), **HUB)
    download, engine = containers(pod)["download-model"], containers(pod)["engine"]

    assert download["command"] == ["python", "-m", "specfleet_download"]
    assert value_of("--repository", download) == "meta-llama/Llama-3.1-8B"
    assert value_of("--revision", download) == COMMIT
    assert value_of("--into", download) == value_of("--model", engine)
    assert value_of("--model", engine) == f"/models/meta-llama--Llama-3.1-8B/{COMMIT}"
    assert variables(download)["HF_ENDPOINT"] == "https://hub.example"
    assert variables(engine)["HF_HUB_OFFLINE"] == "1"
    assert {"name": "model", "emptyDir": {}} in pod["volumes"]
    assert {"name": "model", "mountPath": "/models"} in download["volumeMounts"]
    assert {"name": "model", "mountPath": "/models", "readOnly": True} in engine["volumeMounts"]
    assert download["securityContext"] == engine["securityContext"]


@pytest.mark.fault("ray-project/kuberay#3517")
def test_the_token_is_named_by_reference_and_only_to_the_download() -> None:
    pod = pod_of(a_resource(model=a_hub_model(credentialsSecret="hf-token")))

    assert variables(containers(pod)["download-model"])["HF_TOKEN"] == {
        "secretKeyRef": {"name": "hf-token", "key": "token"}
    }
    assert "HF_TOKEN" not in variables(containers(pod)["engine"])


def test_a_proposer_takes_the_models_token_unless_it_has_its_own() -> None:
    model = a_hub_model(credentialsSecret="hf-token")
    shared = pod_of(a_resource(model=model, speculation=a_hub_head()))
    own = pod_of(a_resource(model=model, speculation=a_hub_head(credentialsSecret="head-token")))

    def secret(pod: dict[str, Any]) -> str:
        name: str = variables(containers(pod)["download-proposer"])["HF_TOKEN"]["secretKeyRef"]["name"]
        return name

    assert (secret(shared), secret(own)) == ("hf-token", "head-token")


@pytest.mark.fault("defilantech/LLMKube#1528")
def test_model_and_proposer_of_a_hub_share_one_volume_and_only_the_proposer_may_be_pickled() -> None:
    pod = pod_of(a_resource(model=a_hub_model(), speculation=a_hub_head()))

    assert [volume["name"] for volume in pod["volumes"]] == ["schedule", "tmp", "model"]
    assert list(containers(pod)) == ["download-model", "download-proposer", "engine"]
    assert value_of("--proposer", containers(pod)["engine"]) == f"/models/org--head/{HEAD_COMMIT}"
    assert "--pickled" not in containers(pod)["download-model"]["args"]
    assert "--pickled" in containers(pod)["download-proposer"]["args"]


def test_a_proposer_of_a_hub_lies_beside_a_model_on_a_claim() -> None:
    pod = pod_of(a_resource(model={"uri": "pvc://weights/llama"}, speculation=a_hub_head()))

    assert {"name": "proposer", "emptyDir": {}} in pod["volumes"]
    assert value_of("--proposer", containers(pod)["engine"]) == f"/proposer/org--head/{HEAD_COMMIT}"
    assert value_of("--into", containers(pod)["download-proposer"]) == f"/proposer/org--head/{HEAD_COMMIT}"


@pytest.mark.fault("kserve/kserve#3869")
def test_a_cache_claim_is_written_by_the_download_only_and_its_top_belongs_to_the_pods_group() -> None:
    pod = pod_of(a_resource(model=a_hub_model(cacheClaim="models")))

    assert {"name": "model", "persistentVolumeClaim": {"claimName": "models"}} in pod["volumes"]
    assert {"name": "model", "mountPath": "/models"} in containers(pod)["download-model"]["volumeMounts"]
    assert {"name": "model", "mountPath": "/models", "readOnly": True} in containers(pod)["engine"][
        "volumeMounts"
    ]
    assert pod["securityContext"]["fsGroup"] == 65532
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_a_download_gets_its_time_before_a_rollout_counts_as_stuck() -> None:
    def deadline(**spec: Any) -> int:
        live = body(planned(a_resource(**spec), an_empty_cluster()), ACTIVE)
        seconds: int = live["spec"]["progressDeadlineSeconds"]
        return seconds

    assert deadline(model=a_hub_model()) == deadline() + 3600


def test_a_repository_without_a_revision_is_read_at_its_main_branch() -> None:
    pod = pod_of(a_resource(model={"uri": "hf://org/model"}))

    assert value_of("--revision", containers(pod)["download-model"]) == "main"
    assert value_of("--model", containers(pod)["engine"]) == "/models/org--model/main"


def test_another_revision_is_another_fingerprint() -> None:
    resources = [
        a_resource(model=a_hub_model()),
        a_resource(model=a_hub_model(revision=HEAD_COMMIT)),
        a_resource(model=a_hub_model(), speculation=a_hub_head()),
        a_resource(model=a_hub_model(), speculation=a_hub_head(revision=COMMIT)),
    ]

    fingerprints = {planned(resource, an_empty_cluster()).pools[0].fingerprint for resource in resources}

    assert len(fingerprints) == len(resources)


def test_an_image_with_a_model_is_mounted_as_a_volume() -> None:
    pod = pod_of(a_resource(model={"uri": "image://registry.example:5000/models/llama:v1/weights"}))

    volume = {"reference": "registry.example:5000/models/llama:v1", "pullPolicy": "IfNotPresent"}
    assert {"name": "model", "image": volume} in pod["volumes"]
    assert value_of("--model", containers(pod)["engine"]) == "/models/weights"
    assert "initContainers" not in pod


def test_a_changed_configuration_rolls_no_pod_that_fetched_already() -> None:
    resource = a_resource(model=a_hub_model(), speculation=a_hub_head())
    before = plan(resource, a_configuration(**HUB), an_empty_cluster(), NOON)
    running = after(before, an_empty_cluster())

    images = a_configuration().images.model_copy(update={"preflight": "example.test/preflight:2"})
    configuration = a_configuration(modelHub={"endpoint": "https://other.example"}, images=images)
    again = plan(resource, configuration, replace(running, full=True), NOON)

    assert body(again, ACTIVE)["spec"]["template"] == body(before, ACTIVE)["spec"]["template"]


def test_pods_that_cannot_fetch_take_a_corrected_address_and_image() -> None:
    resource = a_resource(model=a_hub_model())
    made = after(plan(resource, a_configuration(**HUB), an_empty_cluster(), NOON), an_empty_cluster())
    pod = a_pod(container={"ready": False, "state": {"waiting": {"reason": "PodInitializing"}}})
    ended = {"terminated": {"exitCode": 1}}
    fetching = {"name": "download-model", "ready": False, "state": {"running": {}}, "lastState": ended}
    pod["status"]["initContainerStatuses"] = [fetching]

    images = a_configuration().images.model_copy(update={"preflight": "example.test/preflight:2"})
    configuration = {"modelHub": {"endpoint": "https://other.example"}, "images": images}
    found = body(planned(resource, with_pods(made, pod), **configuration), ACTIVE)

    download = containers(found["spec"]["template"]["spec"])["download-model"]
    assert variables(download)["HF_ENDPOINT"] == "https://other.example"
    assert download["image"] == "example.test/preflight:2"


def a_node(runtime: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "node", "labels": labels},
        "status": {"nodeInfo": {"containerRuntimeVersion": runtime}},
    }


IMAGE_MODEL = {"uri": "image://registry.example/llama:v1"}


@pytest.mark.fault("defilantech/LLMKube#1379")
@pytest.mark.parametrize(
    ("runtimes", "refused"),
    [
        pytest.param(["containerd://1.6.20"], True, id="old-containerd"),
        pytest.param(["containerd://2.0.5", "cri-o://1.30.2"], True, id="nobody"),
        pytest.param(["containerd://1.7.0", "containerd://2.1.0"], False, id="one-of-two"),
        pytest.param(["cri-o://1.31.0"], False, id="cri-o"),
        pytest.param(["another://0.1.0"], False, id="unknown-runtime"),
        pytest.param([], False, id="may-not-look"),
    ],
)
def test_image_volumes_are_refused_where_no_node_has_them(runtimes: list[str], refused: bool) -> None:
    nodes = tuple(a_node(runtime) for runtime in runtimes)

    found = planned(a_resource(model=IMAGE_MODEL), replace(an_empty_cluster(), nodes=nodes))

    assert ("ImageVolumesUnsupported" in reasons(found)) is refused
    assert bool(found.desired) is not refused or found.desired[0].kind != DEPLOYMENT


def test_the_refusal_of_image_volumes_names_pool_runtime_and_the_way_out() -> None:
    nodes = (a_node("containerd://1.6.20", zone="a"), a_node("containerd://2.1.0", zone="b"))
    pool = a_pool(template={"nodeSelector": {"zone": "a"}})

    found = planned(a_resource(pool, model=IMAGE_MODEL), replace(an_empty_cluster(), nodes=nodes))

    (refusal,) = found.refusals
    assert refusal.pool == "interactive"
    assert "image://registry.example/llama:v1 needs image volumes" in refusal.message
    assert "(containerd://1.6.20)" in refusal.message
    assert "pvc://claim/path" in refusal.message


def test_nodes_say_nothing_about_other_sources() -> None:
    observed = replace(an_empty_cluster(), nodes=(a_node("containerd://1.6.20"),))

    assert planned(a_resource(), observed).refusals == ()


@pytest.mark.parametrize(
    ("engine", "model", "speculation"),
    [
        ({"type": "builtin"}, {"uri": "hf://org/model"}, {"method": "ngram"}),
        (
            {"type": "vllm"},
            {"uri": "pvc://weights/llama"},
            {"method": "eagle3", "proposer": {"uri": "pvc://heads/v1"}},
        ),
    ],
    ids=["to-fetch", "to-check"],
)
def test_without_an_image_for_its_init_containers_a_resource_is_refused(
    engine: dict[str, Any], model: dict[str, Any], speculation: dict[str, Any]
) -> None:
    images = a_configuration().images.model_copy(update={"preflight": ""})

    found = planned(
        a_resource(engine=engine, model=model, speculation=speculation), an_empty_cluster(), images=images
    )

    assert reasons(found) == ["ImageMissing"]
    assert "has no image preflight" in found.refusals[0].message
