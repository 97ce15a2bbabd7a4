"""Weights from a hub, kept in a claim that pods share; pairs and sources that cannot work."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.e2e.hub import CLAIM, asked, end_hub, start_hub
from tests.e2e.support import (
    HUB_NAMESPACE,
    Kube,
    Release,
    condition,
    engine_pods,
    identities,
    wait_for,
    wait_ready,
)
from tests.integration.download.hub_server import COMMIT

pytestmark = pytest.mark.timeout(300)

URI = "hf://org/model"
SMALL = {"resources": {"requests": {"cpu": "50m", "memory": "256Mi"}}}


def resource(name: str, engine: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A deployment whose model comes from the hub into the claim."""
    return {
        "apiVersion": "specfleet.dev/v1alpha1",
        "kind": "SpeculativeDeployment",
        "metadata": {"name": name, "namespace": HUB_NAMESPACE},
        "spec": {
            "model": {"uri": URI, "revision": COMMIT, "cacheClaim": CLAIM},
            "engine": {"maxModelLen": 256, **engine},
            "speculation": {"method": "ngram", "depth": {"initial": 2, "max": 3}},
            "tuning": {"mode": "Observe"},
            "pools": [{"name": "main", "replicas": 1, "template": SMALL}],
            **spec,
        },
    }


@pytest.fixture(scope="module")
def fetched(
    kube: Kube, release: Release, images: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A hub, and a deployment that serves what it got from there."""
    start_hub(kube, images["simulated"], tmp_path_factory.mktemp("hub"))
    builtin = {"type": "builtin", "dtype": "float32", "kvCacheMib": 64}
    kube.apply(resource("fetched", builtin))
    yield
    kube.run("delete", "specdep", "--all", "-n", HUB_NAMESPACE, "--wait=false")
    end_hub(kube)


def init_statuses(pod: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {one["name"]: one for one in pod["status"].get("initContainerStatuses", [])}


@pytest.mark.usefixtures("fetched")
def test_a_model_of_a_hub_is_fetched_into_the_claim_and_served(kube: Kube) -> None:
    wait_ready(kube, HUB_NAMESPACE, "fetched", seconds=120)

    body = {"model": "fetched", "prompt": "The quick brown", "max_tokens": 4, "ignore_eos": True}
    answer = kube.proxy.post(kube.service(HUB_NAMESPACE, "fetched", "/v1/completions"), json=body)

    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 4
    paths = [path for method, path in asked(kube) if method == "GET"]
    assert paths.count("/store/model.safetensors") == 1


WRONG_HEAD = {"method": "eagle3", "proposer": {"uri": URI, "revision": COMMIT}}


@pytest.mark.usefixtures("fetched")
def test_a_head_that_is_none_is_refused_from_the_claim_before_any_engine_starts(kube: Kube) -> None:
    wait_ready(kube, HUB_NAMESPACE, "fetched", seconds=120)
    before = asked(kube)
    # An image that no registry has: nothing pulls it, since the check comes first.
    engine = {"type": "vllm", "image": "registry.invalid/vllm:none", "maxNumSeqs": 8}

    kube.apply(resource("refused", engine, speculation=WRONG_HEAD))

    def refused() -> str | None:
        found = condition(kube.get("specdep", HUB_NAMESPACE, "refused") or {}, "ProposerCompatible")
        return str(found["message"]) if found.get("reason") == "ProposerRefused" else None

    message = wait_for("the pair is refused", refused, seconds=60)
    assert URI in message
    # What is complete in the claim is used without a word to the hub.
    assert asked(kube) == before

    # While the kubelet waits before the next look it mostly shows the last end, and its wait only at times.
    def looked_again() -> Mapping[str, Any] | None:
        (pod,) = engine_pods(kube, HUB_NAMESPACE, "refused")
        check = init_statuses(pod).get("preflight", {})
        return pod if check.get("restartCount", 0) and "running" not in check["state"] else None

    pod = wait_for("the kubelet has looked again", looked_again, seconds=60)
    (status,) = pod["status"]["containerStatuses"]
    assert status["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert (status["restartCount"], status["ready"], status["lastState"]) == (0, False, {})
    assert init_statuses(pod)["download-model"]["restartCount"] == 0


def mounts_images(kube: Kube) -> bool:
    """Say whether the runtime of the cluster's nodes has image volumes: containerd from 2.1 on."""
    runtime = kube.list("nodes", "")[0]["status"]["nodeInfo"]["containerRuntimeVersion"]
    name, _, version = runtime.partition("://")
    return name != "containerd" or tuple(map(int, version.lstrip("v").split(".")[:2])) >= (2, 1)


@pytest.mark.usefixtures("fetched")
def test_a_model_in_an_image_is_refused_with_the_runtime_that_cannot_mount_it(kube: Kube) -> None:
    if mounts_images(kube):
        pytest.skip("these nodes mount images")
    model = {"uri": "image://registry.invalid/model:1"}

    kube.apply(resource("in-an-image", {"type": "builtin"}, model=model))

    def refused() -> str | None:
        found = condition(kube.get("specdep", HUB_NAMESPACE, "in-an-image") or {}, "Degraded")
        return str(found["message"]) if found.get("reason") == "ImageVolumesUnsupported" else None

    message = wait_for("the source is refused", refused, seconds=30)
    assert "containerd://" in message and "pvc://claim/path" in message
    assert engine_pods(kube, HUB_NAMESPACE, "in-an-image") == []


@pytest.mark.alone
@pytest.mark.usefixtures("fetched")
def test_another_hub_and_another_image_of_the_downloads_roll_nothing(
    kube: Kube, release: Release, images: Mapping[str, str]
) -> None:
    wait_ready(kube, HUB_NAMESPACE, "fetched", seconds=120)
    pods = identities(engine_pods(kube, HUB_NAMESPACE, "fetched"))
    before = release.leads()

    def observed() -> int:
        found = condition(kube.get("specdep", HUB_NAMESPACE, "fetched") or {}, "Ready")
        return int(found.get("observedGeneration", 0))

    try:
        release.upgrade(
            "modelHub.endpoint=http://hub.invalid",
            f"engineImages.preflight=docker.io/{images['preflight']}",
        )
        wait_for(
            "the new operator leads",
            lambda: name if (name := release.leads()) != before else None,
            seconds=90,
        )
        # Its reconcile is over when status is about a newer generation, here of a field that rolls nothing.
        kube.patch("specdep", HUB_NAMESPACE, "fetched", {"spec": {"tuning": {"mode": "Recommend"}}})
        generation = (kube.get("specdep", HUB_NAMESPACE, "fetched") or {})["metadata"]["generation"]
        wait_for("it has looked at the fleet", lambda: observed() == generation, seconds=60)
    finally:
        release.upgrade()

    wait_ready(kube, HUB_NAMESPACE, "fetched")
    assert identities(engine_pods(kube, HUB_NAMESPACE, "fetched")) == pods
