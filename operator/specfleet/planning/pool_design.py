"""One pool with everything resolved: what the modules per object kind render from.

Resolved means: engine adapter, image, arguments, names, and the fingerprint that says which measurements may
be compared. Source: design/contracts.md, design/tuning.md section 12.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from specfleet.api.configuration import Configuration
from specfleet.api.owned import SCHEDULE_PATH
from specfleet.api.resource import PoolSpec, SpeculativeDeployment
from specfleet.api.schedule import Table
from specfleet.engines.engine import Engine, Runtime
from specfleet.planning import model_source, names
from specfleet.planning.manifest import digest, written
from specfleet.planning.model_source import Download
from specfleet.planning.served import as_served, otherwise_served
from specfleet.planning.start_budget import start_seconds
from specfleet.planning.start_table import table_files

_FINGERPRINT_LENGTH = 10
ENDPOINT_VARIABLE = "HF_ENDPOINT"
# Where a default image names the engine's version.
VERSION_PLACE = "{version}"


@dataclass(frozen=True, slots=True)
class PoolDesign:
    """One pool of one resource, ready to be rendered."""

    resource: SpeculativeDeployment
    pool: PoolSpec
    engine: Engine
    images: Mapping[str, str]
    """By container: the engine, and the init containers that specfleet adds."""
    hub_endpoint: str = ""
    """Address of the model hub; empty: the public one."""
    table: Table | None = None
    """The depths that pods start with and keep; None: they follow the schedule while they run."""

    @property
    def image(self) -> str:
        return self.images[names.ENGINE_CONTAINER]

    @property
    def runtime(self) -> Runtime:
        return self.engine.runtime(self.resource.spec)

    @property
    def start_seconds(self) -> int:
        """How long a pod may take from its start to its first answer."""
        return start_seconds(self.engine, self.resource.spec, self.pool.template)

    @property
    def files(self) -> Mapping[str, str]:
        """What the engine reads of the schedule only when it starts, by name of the file."""
        return table_files(self.resource, self.engine, self.table)

    @property
    def downloads(self) -> tuple[Download, ...]:
        return model_source.downloads(self.resource.spec)

    @property
    def deployment(self) -> str:
        return names.slice_deployment(self.resource.name, self.pool.name)

    @property
    def service(self) -> str:
        return names.pool_service(self.resource.name, self.pool.name)

    @property
    def schedule(self) -> str:
        return names.schedule_config_map(self.resource.name, self.pool.name)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The whole command line; the user's extra arguments come last and cannot name an owned flag."""
        spec = self.resource.spec
        own = self.engine.arguments(
            spec,
            served_name=spec.model.served_name or self.resource.name,
            paths=model_source.model_paths(spec),
            schedule_file=f"{SCHEDULE_PATH}/{names.SCHEDULE_KEY}",
        )
        return (*own, *spec.engine.extra_args)

    @property
    def fingerprint(self) -> str:
        """Hash what makes measurements comparable: weights, image, arguments, environment, hardware.

        Replicas, objectives, tuning and schedules are left out: they change while a baseline stays valid.
        """
        spec, template = self.resource.spec, self.pool.template
        comparable = {
            "model": spec.model.uri,
            "image": self.image,
            "arguments": list(self.arguments),
            "environment": written(spec.engine.env),
            "resources": written(template.resources),
            "nodeSelector": written(template.node_selector),
            "nodeAffinity": written(template.affinity).get("nodeAffinity"),
        }
        # Only what is there makes a key: fingerprints from before these fields were still hold.
        if spec.engine.version:
            comparable["version"] = spec.engine.version
        if spec.model.revision:
            comparable["revision"] = spec.model.revision
        if (proposer := spec.speculation.proposer) is not None:
            comparable["proposer"] = proposer.uri
            if proposer.revision:
                comparable["proposerRevision"] = proposer.revision
        return digest(comparable)[:_FINGERPRINT_LENGTH]


def design_pool(
    resource: SpeculativeDeployment,
    pool: PoolSpec,
    engine: Engine,
    configuration: Configuration,
    live: Mapping[str, Any] | None,
    table: Table | None,
) -> PoolDesign:
    """Resolve one pool. ``resource``: as the user wrote it; ``table`` as in `PoolDesign`.

    ``live`` is the pool's Deployment, if there is one of ours with pods that may keep what they have.

    What the operator's configuration sets, images and the hub's address, rolls nothing when it changes: pods
    that run what the spec asks for keep theirs until the spec asks for something else. Hard-off is no such
    change, so it keeps them, too.
    """
    served = as_served(resource, pool.name)
    hub = configuration.model_hub.endpoint
    if live is not None:
        for form in (served, otherwise_served(resource, pool.name)):
            kept = _kept_images(form, engine, configuration, live)
            running = PoolDesign(form, pool, engine, kept, table=table)
            if running.fingerprint == live_fingerprint(live):
                kept = _kept_images(served, engine, configuration, live)
                # Pods that download nothing know no address.
                hub = _running_endpoint(live) if running.downloads else hub
                return PoolDesign(served, pool, engine, kept, hub_endpoint=hub, table=table)
    images = _images(served, engine, configuration)
    return PoolDesign(served, pool, engine, images, hub_endpoint=hub, table=table)


def _kept_images(
    resource: SpeculativeDeployment, engine: Engine, configuration: Configuration, live: Mapping[str, Any]
) -> dict[str, str]:
    """Resolve the image of every container, as it is in the live pods where the spec names none, nor did."""
    images = _images(resource, engine, configuration)
    kept = images | _running_images(live, images)
    if resource.spec.engine.image or _is_image_named(live):
        kept[names.ENGINE_CONTAINER] = images[names.ENGINE_CONTAINER]
    return kept


def _images(resource: SpeculativeDeployment, engine: Engine, configuration: Configuration) -> dict[str, str]:
    """Resolve the image of every container; empty: the operator's configuration has none."""
    spec = resource.spec
    defaults = configuration.images.model_dump()
    images = {
        names.ENGINE_CONTAINER: spec.engine.image
        or defaults[engine.name].replace(VERSION_PLACE, spec.engine.dialect)
    }
    if (plugin := engine.runtime(spec).plugin) is not None:
        images[plugin.container] = defaults[plugin.image]
    for download in model_source.downloads(spec):
        images[names.download_container(download.field)] = configuration.images.preflight
    if model_source.is_checked(spec):
        images[names.PREFLIGHT] = configuration.images.preflight
    return images


def live_fingerprint(live: Mapping[str, Any]) -> str | None:
    """Read the fingerprint of the pods that a live Deployment makes."""
    metadata = live["spec"]["template"].get("metadata") or {}
    found: str | None = (metadata.get("labels") or {}).get(names.FINGERPRINT_LABEL)
    return found


def _is_image_named(live: Mapping[str, Any]) -> bool:
    return names.NAMED_IMAGE in (live["metadata"].get("annotations") or {})


def _running_endpoint(live: Mapping[str, Any]) -> str:
    for container in live["spec"]["template"]["spec"].get("initContainers") or ():
        for entry in container.get("env") or ():
            if entry["name"] == ENDPOINT_VARIABLE:
                return str(entry["value"])
    return ""


def _running_images(live: Mapping[str, Any], wanted: Collection[str]) -> dict[str, str]:
    """Read the images of a live Deployment, of those containers that are still wanted."""
    pod = live["spec"]["template"]["spec"]
    containers = (*(pod.get("initContainers") or ()), *pod["containers"])
    return {container["name"]: container["image"] for container in containers if container["name"] in wanted}
