"""Where the pod has the weights of model and proposer. Source: design/contracts.md, "Model sources"."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from specfleet.api.owned import MODEL_VOLUME, MODELS_PATH, PROPOSER_PATH, PROPOSER_VOLUME
from specfleet.api.resource import Spec
from specfleet.engines.engine import ModelPaths


@dataclass(frozen=True, slots=True)
class ClaimMount:
    """A volume claim of the namespace, and where the engine sees it."""

    volume: str
    claim: str
    path: str


def claim_mounts(spec: Spec) -> tuple[ClaimMount, ...]:
    """Name the claims that have to be mounted: the model's, then the proposer's unless it is the same."""
    return tuple(_claim_mounts(spec))


def _claim_mounts(spec: Spec) -> Iterator[ClaimMount]:
    of_model, of_proposer = _claim(spec.model.uri), _claim(_proposer_uri(spec))
    if of_model is not None:
        yield ClaimMount(MODEL_VOLUME, of_model, MODELS_PATH)
    if of_proposer is not None and of_proposer != of_model:
        yield ClaimMount(PROPOSER_VOLUME, of_proposer, PROPOSER_PATH)


def model_paths(spec: Spec) -> ModelPaths:
    """Say where the engine finds model and proposer.

    Raises ValueError for a scheme that the schema does not allow.
    """
    mounted = {mount.claim: mount.path for mount in claim_mounts(spec)}
    return ModelPaths(_path(spec.model.uri, mounted), _path(_proposer_uri(spec), mounted))


def _proposer_uri(spec: Spec) -> str:
    return "" if spec.speculation.proposer is None else spec.speculation.proposer.uri


def _claim(uri: str) -> str | None:
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme == "pvc" else None


def _path(uri: str, mounted: dict[str, str]) -> str | None:
    parts = urlsplit(uri)
    match parts.scheme:
        case "":
            return None
        case "file":
            return parts.path
        case "pvc":
            return f"{mounted[parts.netloc]}{parts.path}"
        case other:
            raise ValueError(f"a uri has scheme {other!r}: write pvc://claim/path or file:///path")
