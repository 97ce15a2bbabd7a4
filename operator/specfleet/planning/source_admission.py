"""Whether the weights that a resource names can get into its pods, as far as the cluster tells.

Kubernetes takes pods with image volumes from 1.31 on, but a runtime without the feature never starts them:
containerd has it from 2.1 on, CRI-O from 1.31 on. Source: kubernetes/enhancements#4639.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from specfleet.api.configuration import Configuration
from specfleet.api.resource import SpeculativeDeployment
from specfleet.engines.engine import Refusal
from specfleet.planning.model_source import downloads, image_references, is_checked
from specfleet.planning.observed import Live

IMAGE_MISSING = "ImageMissing"
IMAGE_VOLUMES_UNSUPPORTED = "ImageVolumesUnsupported"
_FIRST = {"containerd": (2, 1), "cri-o": (1, 31)}
_RUNTIME = re.compile(r"([a-z-]+)://v?([0-9]+)[.]([0-9]+)")


def source_refusals(
    resource: SpeculativeDeployment, configuration: Configuration, nodes: Iterable[Live]
) -> tuple[Refusal, ...]:
    """Give every reason at once. Without ``nodes`` to look at nothing is refused for their sake."""
    return (*_images(resource, configuration), *_image_volumes(resource, nodes))


def _images(resource: SpeculativeDeployment, configuration: Configuration) -> Iterator[Refusal]:
    spec = resource.spec
    if not configuration.images.preflight and (downloads(spec) or is_checked(spec)):
        what = "fetches models with hf://" if downloads(spec) else "checks whether model and proposer fit"
        yield Refusal(
            IMAGE_MISSING,
            f"the operator's configuration has no image preflight, which {what}: have it added there",
        )


def _image_volumes(resource: SpeculativeDeployment, nodes: Iterable[Live]) -> Iterator[Refusal]:
    """Refuse pools none of whose nodes can mount an image."""
    if not (references := image_references(resource.spec)):
        return
    nodes = tuple(nodes)
    for pool in resource.spec.pools:
        eligible = [node for node in nodes if _is_selected(node, pool.template.node_selector)]
        if eligible and not any(_mounts_images(_runtime(node)) for node in eligible):
            runtimes = ", ".join(sorted({_runtime(node) for node in eligible}))
            yield Refusal(
                IMAGE_VOLUMES_UNSUPPORTED,
                f"pool {pool.name}: image://{references[0]} needs image volumes, which none of its nodes has "
                f"({runtimes}): containerd 2.1 or CRI-O 1.31 is needed; until then serve the model from "
                "pvc://claim/path or hf://org/name",
                pool=pool.name,
            )


def _is_selected(node: Live, selector: Mapping[str, str]) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _runtime(node: Live) -> str:
    information = (node.get("status") or {}).get("nodeInfo") or {}
    return str(information.get("containerRuntimeVersion", "unknown"))


def _mounts_images(runtime: str) -> bool:
    """Say whether a runtime such as containerd://2.1.4 has the feature; of others nothing is known."""
    found = _RUNTIME.match(runtime)
    if found is None or found[1] not in _FIRST:
        return True
    return (int(found[2]), int(found[3])) >= _FIRST[found[1]]
