"""A hub in the cluster, and a claim that pods share: what a pod of `hub_pod` needs around it."""

import base64
from pathlib import Path
from typing import Any

from tests.e2e.support import HUB_NAMESPACE, HUB_URL, REPOSITORY, Kube
from tests.integration.engine.checkpoints import save_random

CLAIM = "models"
VOLUME = "specfleet-e2e-models"
ON_THE_NODE = "/tmp/specfleet-e2e"
# The same pod under another name: the client takes a redirect for the store's only if it leads elsewhere.
STORE_URL = HUB_URL.replace("//hub.", "//store.")
PROGRAM, SERVER = "tests/e2e/hub_pod.py", "tests/integration/download/hub_server.py"
# Small enough for a ConfigMap, and with lengths that the compiled layer takes.
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1}


def start_hub(kube: Kube, image: str, scratch: Path) -> None:
    """Start the hub, and wait until it serves."""
    kube.run("delete", "namespace", HUB_NAMESPACE, "--ignore-not-found", "--timeout=240s")
    kube.run("delete", "persistentvolume", VOLUME, "--ignore-not-found", "--timeout=60s")
    kube.run("create", "namespace", HUB_NAMESPACE)
    folder = save_random(scratch / "model", layers=1, **TINY)
    kube.apply(
        _files("programs", [REPOSITORY / PROGRAM, REPOSITORY / SERVER]),
        _files("files", folder.iterdir()),
        *_claim(),
        _service("hub"),
        _service("store"),
    )
    kube.apply(_pod(image))
    kube.run("wait", "pod/hub", "-n", HUB_NAMESPACE, "--for=condition=Ready", "--timeout=60s")


def end_hub(kube: Kube) -> None:
    """Let the hub go, with everything in its namespace."""
    for kind, name in (("namespace", HUB_NAMESPACE), ("persistentvolume", VOLUME)):
        kube.run("delete", kind, name, "--ignore-not-found", "--wait=false")


def asked(kube: Kube) -> list[tuple[str, str]]:
    """Give every request that the hub got for its repository, as method and path."""
    path = kube.pod(HUB_NAMESPACE, "hub", "/asked")
    return [(method, path) for method, path in kube.proxy.get(path).raise_for_status().json()]


def _files(name: str, files: Any) -> dict[str, Any]:
    data = {file.name: base64.b64encode(file.read_bytes()).decode() for file in files}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named(name), "binaryData": data}


def _named(name: str) -> dict[str, str]:
    return {"name": name, "namespace": HUB_NAMESPACE}


def _claim() -> list[dict[str, Any]]:
    """A folder of the node as a volume of many writers; such a cluster may have no other."""
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": f"{ON_THE_NODE}/{CLAIM}"},
        "claimRef": _named(CLAIM),
    }
    claim = {"volumeName": VOLUME, "resources": {"requests": {"storage": "1Gi"}}}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": VOLUME},
            "spec": shared | volume,
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": _named(CLAIM),
            "spec": shared | claim,
        },
    ]


def _service(name: str) -> dict[str, Any]:
    spec = {"selector": {"app": "hub"}, "ports": [{"name": "http", "port": 8000}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(name), "spec": spec}


def _pod(image: str) -> dict[str, Any]:
    places = [{"key": path.rpartition("/")[2], "path": path} for path in (PROGRAM, SERVER)]
    volumes: list[dict[str, Any]] = [
        {"name": "programs", "configMap": {"name": "programs", "items": places}},
        {"name": "files", "configMap": {"name": "files"}},
        {"name": "node", "hostPath": {"path": ON_THE_NODE, "type": "DirectoryOrCreate"}},
    ]
    container = {
        "name": "hub",
        "image": image,
        "command": ["python3", f"/programs/{PROGRAM}", HUB_URL, STORE_URL, "/files", f"/node/{CLAIM}"],
        "env": [{"name": "PYTHONPATH", "value": "/programs"}],
        "securityContext": {"runAsUser": 0},
        "readinessProbe": {
            "httpGet": {"path": "/asked", "port": 8000},
            "periodSeconds": 1,
        },
        "volumeMounts": [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _named("hub") | {"labels": {"app": "hub"}},
        "spec": {"containers": [container], "volumes": volumes},
    }
