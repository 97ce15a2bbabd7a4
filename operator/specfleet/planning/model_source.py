"""Where the pod has the weights of model and proposer. Source: design/contracts.md, "Model sources"."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from specfleet.api import model_uri
from specfleet.api.engine_versions import OWN_ENGINES
from specfleet.api.owned import MODEL_VOLUME, MODELS_PATH, PROPOSER_PATH, PROPOSER_VOLUME
from specfleet.api.resource import Spec
from specfleet.engines.engine import ModelPaths

MAIN = "main"
"""What a repository without a revision is read at."""


@dataclass(frozen=True, slots=True)
class SourceMount:
    """A volume that holds weights, and where containers see it. ``source`` is as in a pod's volumes."""

    volume: str
    source: Mapping[str, Any]
    path: str


@dataclass(frozen=True, slots=True)
class Download:
    """One repository to fetch. ``field``: the part of the spec that names it; ``into``: a path in the pod."""

    field: str
    repository: str
    revision: str
    into: str
    mount: SourceMount
    credentials: str | None
    pickled: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """The volume of one uri, empty for a path of the engine's image, and the path in it."""

    source: Mapping[str, Any]
    path: str


def source_mounts(spec: Spec) -> tuple[SourceMount, ...]:
    """Name the volumes that hold weights: the model's, then the proposer's unless it is the same."""
    return tuple(_mounts(spec))


def _mounts(spec: Spec) -> Iterator[SourceMount]:
    model, proposer = _places(spec)
    if model is not None and model.source:
        yield SourceMount(MODEL_VOLUME, model.source, MODELS_PATH)
    if proposer is not None and proposer.source and (model is None or proposer.source != model.source):
        yield SourceMount(PROPOSER_VOLUME, proposer.source, PROPOSER_PATH)


def model_paths(spec: Spec) -> ModelPaths:
    """Say where the engine finds model and proposer.

    Raises ValueError for a scheme that the schema does not allow.
    """
    mounts = source_mounts(spec)
    model, proposer = _places(spec)
    return ModelPaths(_path(model, mounts), _path(proposer, mounts))


def downloads(spec: Spec) -> tuple[Download, ...]:
    """Name what has to be fetched from a model hub before the engine starts: the model, then the proposer."""
    return tuple(_downloads(spec))


def _downloads(spec: Spec) -> Iterator[Download]:
    mounts, paths = source_mounts(spec), model_paths(spec)
    model, proposer = spec.model, spec.speculation.proposer
    if model.uri.startswith(model_uri.HUB) and paths.model is not None:
        yield Download(
            field="model",
            repository=model_uri.repository(model.uri),
            revision=model.revision or MAIN,
            into=paths.model,
            mount=_mount_of(paths.model, mounts),
            credentials=model.credentials_secret,
            pickled=False,
        )
    if proposer is not None and proposer.uri.startswith(model_uri.HUB) and paths.proposer is not None:
        yield Download(
            field="speculation.proposer",
            repository=model_uri.repository(proposer.uri),
            revision=proposer.revision or MAIN,
            into=paths.proposer,
            mount=_mount_of(paths.proposer, mounts),
            credentials=proposer.credentials_secret or model.credentials_secret,
            # Heads are published as pickle files too; engines read them with weights_only.
            pickled=True,
        )


def is_checked(spec: Spec) -> bool:
    """Say whether pods check their pair before the engine starts.

    The built-in engine does it itself, and what lies in an engine's image no other container can see.
    """
    seen = all(place is None or place.source for place in _places(spec))
    return spec.speculation.proposer is not None and spec.engine.type not in OWN_ENGINES and seen


def image_references(spec: Spec) -> tuple[str, ...]:
    """Name the images that are mounted as volumes."""
    uris = (spec.model.uri, _proposer_uri(spec))
    return tuple(model_uri.image(uri).reference for uri in uris if uri.startswith("image://"))


def _places(spec: Spec) -> tuple[_Place | None, _Place | None]:
    model, proposer = spec.model, spec.speculation.proposer
    return (
        _place(model.uri, model.revision, model.cache_claim),
        None if proposer is None else _place(proposer.uri, proposer.revision, model.cache_claim),
    )


def _place(uri: str, revision: str, cache: str | None) -> _Place | None:
    parts = urlsplit(uri)
    match parts.scheme:
        case "":
            return None
        case "file":
            return _Place({}, parts.path)
        case "pvc":
            claim, path = model_uri.claim(uri)
            return _Place({"persistentVolumeClaim": {"claimName": claim, "readOnly": True}}, path)
        case "image":
            image = model_uri.image(uri)
            volume = {"reference": image.reference, "pullPolicy": "IfNotPresent"}
            return _Place({"image": volume}, image.path)
        case "hf":
            folder = f"/{model_uri.repository(uri).replace('/', '--')}/{revision or MAIN}"
            return _Place(_kept_in(cache), folder)
        case other:
            raise ValueError(f"a uri has scheme {other!r}: write {model_uri.SCHEMES}")


def _kept_in(cache: str | None) -> dict[str, Any]:
    return {"emptyDir": {}} if cache is None else {"persistentVolumeClaim": {"claimName": cache}}


def _path(place: _Place | None, mounts: tuple[SourceMount, ...]) -> str | None:
    if place is None:
        return None
    root = next((mount.path for mount in mounts if mount.source == place.source), "")
    return f"{root}{place.path}"


def _mount_of(path: str, mounts: tuple[SourceMount, ...]) -> SourceMount:
    return next(mount for mount in mounts if path.startswith(f"{mount.path}/"))


def _proposer_uri(spec: Spec) -> str:
    return "" if spec.speculation.proposer is None else spec.speculation.proposer.uri
