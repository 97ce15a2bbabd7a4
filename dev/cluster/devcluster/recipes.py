"""The project's images: what each is made from. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from devcluster.errors import ClusterError

NAMESPACE = "specfleet"
TAG_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image: its name, and the target of the Dockerfile (none: a file of the local cluster makes it)."""

    name: str
    target: str | None
    with_model: bool = False


RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("operator", "operator"),
        Recipe("simulated", "simulated"),
        Recipe("preflight", "preflight"),
        Recipe("prometheus", None),
        Recipe("engine", "engine-demo", with_model=True),
        Recipe("vllm-plugin", "vllm-plugin"),
        Recipe("vllm-cpu", "vllm-cpu", with_model=True),
    )
}


def repository(name: str) -> str:
    """Answer the image's name without a tag; it has no host, so that every cluster can hold it."""
    return f"{NAMESPACE}/{name}"


def reference(name: str, image_id: str) -> str:
    """Answer the image's name with a tag that names its content, so that new content is always rolled out."""
    return f"{repository(name)}:dev-{image_id.removeprefix('sha256:')[:TAG_DIGITS]}"


def outdated(present: list[str], current: list[str]) -> list[str]:
    """Answer which of the images of a runtime are older builds of the current ones."""
    kept = {f"docker.io/{one}" for one in current}
    prefixes = tuple(f"docker.io/{one.rpartition(':')[0]}:" for one in current)
    return [one for one in present if one.startswith(prefixes) and one not in kept]


def variable(name: str) -> str:
    """Answer the environment variable that names an image of a given cluster."""
    return f"SPECFLEET_IMAGE_{name.upper().replace('-', '_')}"


def given_images(environment: Mapping[str, str], needed: Iterable[str]) -> Mapping[str, str]:
    """Answer what SPECFLEET_IMAGE_OPERATOR and its like name. Raises ClusterError if a needed one is missing.

    The chart's defaults are no way out: no registry has them yet.
    """
    given = {name: one for name in RECIPES if (one := environment.get(variable(name), ""))}
    if missing := [variable(name) for name in needed if name not in given]:
        raise ClusterError(
            "images cannot be built into a given cluster (SPECFLEET_KUBECONFIG): push them where it can "
            f"pull, see docs/install.md, and set {', '.join(missing)}"
        )
    return given
