"""The init containers that fetch repositories of a model hub into the pod's volumes."""

from typing import Any

from specfleet.api.owned import SCRATCH_PATH, SCRATCH_VOLUME
from specfleet.planning import names
from specfleet.planning.container import CONTAINER_SECURITY
from specfleet.planning.manifest import written
from specfleet.planning.model_source import Download
from specfleet.planning.pool_design import ENDPOINT_VARIABLE, PoolDesign

TOKEN_KEY = "token"  # noqa: S105 - the key in the Secret
# Fetching streams to disk; hashing and the hub's own transfer keep some chunks in memory.
_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}


def download_containers(design: PoolDesign) -> list[dict[str, Any]]:
    """Render one container for each repository, the model's first."""
    return [_container(design, download) for download in design.downloads]


def _container(design: PoolDesign, download: Download) -> dict[str, Any]:
    name = names.download_container(download.field)
    return {
        "name": name,
        "image": design.images[name],
        "command": ["python", "-m", "specfleet_download"],
        "args": [
            *("--repository", download.repository),
            *("--revision", download.revision),
            *("--into", download.into),
            *("--field", download.field),
            *(("--pickled",) if download.pickled else ()),
        ],
        "env": _environment(design, download),
        "resources": written(_RESOURCES),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": written(CONTAINER_SECURITY),
        "volumeMounts": [
            {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_PATH},
            {"name": download.mount.volume, "mountPath": download.mount.path},
        ],
    }


def _environment(design: PoolDesign, download: Download) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if design.hub_endpoint:
        found.append({"name": ENDPOINT_VARIABLE, "value": design.hub_endpoint})
    if download.credentials is not None:
        # By reference: the operator never reads the Secret, and the engine never sees the token.
        reference = {"name": download.credentials, "key": TOKEN_KEY}
        found.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    return found
