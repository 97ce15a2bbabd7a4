"""Move built images into the local cluster's runtime, and forget their older builds there."""

import http.client
import time
from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.api import ApiServer
from devcluster.builder import Builder
from devcluster.configuration import registry_url
from devcluster.errors import ClusterError
from devcluster.pause import CTR
from devcluster.recipes import Recipe, outdated
from devcluster.sandbox import Sandbox
from devcluster.settings import Ranges, Settings
from devcluster.shell import say

PODS = "/api/v1/namespaces/kube-system/pods"
# The torch image: reading, unpacking and writing 4 GB on a busy disk.
LOAD_SECONDS = 600.0
REFUSALS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


def registry_host(ranges: Ranges) -> str:
    """The registry's address as image names write it."""
    return registry_url(ranges).removeprefix("http://")


def present(sandbox: Sandbox) -> list[str]:
    """Answer the names of the runtime's images."""
    return sandbox.run([*CTR, "images", "list", "--quiet"]).split()


def provide(
    settings: Settings, sandbox: Sandbox, ranges: Ranges, recipes: Sequence[Recipe]
) -> dict[str, str]:
    """Build these images and have the cluster hold them; answer their references."""
    builder = Builder(settings)
    references: dict[str, str] = {}
    with builder.alone():
        for recipe in recipes:
            started = time.monotonic()
            image = builder.build(recipe)
            built = time.monotonic()
            builder.push(recipe, image, registry_host(ranges))
            load(settings, sandbox, ranges, [image])
            say(f"{image}: build {built - started:.1f} s, load {time.monotonic() - built:.1f} s")
            references[recipe.name] = image
    return references


def load(settings: Settings, sandbox: Sandbox, ranges: Ranges, images: Sequence[str]) -> None:
    """Have the runtime hold these images, which lie in the registry, and none of their older builds.

    A pod pulls them: the kubelet's way is the one that skips unpacked layers and keeps no compressed copy.
    """
    there = present(sandbox)
    missing = [image for image in images if f"docker.io/{image}" not in there]
    if missing:
        _pull(ApiServer(settings, ranges), settings.name, missing)
    if old := outdated(present(sandbox), list(images)):
        sandbox.run([*CTR, "images", "remove", *old])


def puller(node: str, images: Sequence[str]) -> Mapping[str, Any]:
    """Write a pod that makes the node pull images: its commands do not exist, so nothing of them runs."""
    containers = [
        {"name": f"image-{number}", "image": image, "command": ["/pulled"], "imagePullPolicy": "IfNotPresent"}
        for number, image in enumerate(images)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "specfleet-image-pull"},
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": containers,
        },
    }


def refusal(pod: Mapping[str, Any]) -> str | None:
    """Answer why the node cannot pull an image of the pod; None while it can."""
    for status in pod["status"].get("containerStatuses", []):
        waiting = status["state"].get("waiting", {})
        if waiting.get("reason") in REFUSALS:
            return f"{status['image']}: {waiting['reason']} {waiting.get('message', '')}"
    return None


def is_pulled(pod: Mapping[str, Any]) -> bool:
    """Say whether every container got as far as its command, which is past its image."""
    states = [status["state"] for status in pod["status"].get("containerStatuses", [])]
    return bool(states) and all("terminated" in state for state in states)


def _pull(api: ApiServer, node: str, images: Sequence[str]) -> None:
    path = f"{PODS}/specfleet-image-pull"
    _remove(api, path)
    status, text = api.request("POST", PODS, puller(node, images))
    if status != http.client.CREATED:
        raise ClusterError(f"the API server refused the pod that pulls images with status {status}: {text}")
    deadline = time.monotonic() + LOAD_SECONDS
    while True:
        pod = api.get(path)
        if pod is not None and is_pulled(pod):
            break
        if pod is not None and (reason := refusal(pod)):
            raise ClusterError(f"the node cannot pull {reason}")
        if time.monotonic() > deadline:
            raise ClusterError(f"the node did not pull {', '.join(images)} within {LOAD_SECONDS:.0f} s")
        time.sleep(0.2)
    _remove(api, path)


def _remove(api: ApiServer, path: str) -> None:
    api.request("DELETE", f"{path}?gracePeriodSeconds=0")
    while api.get(path) is not None:
        time.sleep(0.1)
