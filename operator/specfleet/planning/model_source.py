"""Where the model's files are inside the pod. Source: design/contracts.md, "Model sources"."""

from urllib.parse import urlsplit

from specfleet.api.owned import MODELS_PATH


def claim(uri: str) -> str | None:
    """Name the volume claim that has to be mounted; None: the image has the files."""
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme == "pvc" else None


def path(uri: str) -> str | None:
    """Say where the engine finds the model; None: no model is named.

    Raises ValueError for a scheme that the schema does not allow.
    """
    parts = urlsplit(uri)
    match parts.scheme:
        case "":
            return None
        case "file":
            return parts.path
        case "pvc":
            return f"{MODELS_PATH}{parts.path}"
        case other:
            raise ValueError(f"model.uri has scheme {other!r}: write pvc://claim/path or file:///path")
