"""One pool with everything resolved: what the modules per object kind render from.

Resolved means: engine adapter, image, arguments, names, and the fingerprint that says which measurements may
be compared. Source: design/contracts.md, design/tuning.md section 12.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specfleet.api.configuration import Configuration
from specfleet.api.owned import SCHEDULE_PATH
from specfleet.api.resource import PoolSpec, SpeculativeDeployment
from specfleet.engines.engine import Engine
from specfleet.planning import model_source, names
from specfleet.planning.manifest import digest, written

SCHEDULE_KEY = "schedule.json"
_FINGERPRINT_LENGTH = 10


@dataclass(frozen=True, slots=True)
class PoolDesign:
    """One pool of one resource, ready to be rendered."""

    resource: SpeculativeDeployment
    pool: PoolSpec
    engine: Engine
    image: str

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
            schedule_file=f"{SCHEDULE_PATH}/{SCHEDULE_KEY}",
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
        # Without a proposer there is no such key: fingerprints from before there were any still hold.
        if spec.speculation.proposer is not None:
            comparable["proposer"] = spec.speculation.proposer.uri
        return digest(comparable)[:_FINGERPRINT_LENGTH]


def design_pool(
    resource: SpeculativeDeployment,
    pool: PoolSpec,
    engine: Engine,
    configuration: Configuration,
    live: Mapping[str, Any] | None,
) -> PoolDesign:
    """Resolve one pool. ``live`` is its Deployment, if there is one of ours.

    A default image that changes (an upgrade of the operator) rolls nothing: pods that run what the spec asks
    for keep their image until the spec asks for something else.
    """
    default = {"builtin": configuration.images.builtin, "simulated": configuration.images.simulated}
    if resource.spec.engine.image:
        return PoolDesign(resource, pool, engine, resource.spec.engine.image)
    if live is not None and (image := _running_image(live)) is not None:
        running = PoolDesign(resource, pool, engine, image)
        if running.fingerprint == live_fingerprint(live):
            return running
    return PoolDesign(resource, pool, engine, default[engine.name])


def live_fingerprint(live: Mapping[str, Any]) -> str | None:
    """Read the fingerprint of the pods that a live Deployment makes."""
    metadata = live["spec"]["template"].get("metadata") or {}
    found: str | None = (metadata.get("labels") or {}).get(names.FINGERPRINT_LABEL)
    return found


def _running_image(live: Mapping[str, Any]) -> str | None:
    for container in live["spec"]["template"]["spec"]["containers"]:
        if container["name"] == names.ENGINE_CONTAINER:
            image: str | None = container.get("image")
            return image
    return None
