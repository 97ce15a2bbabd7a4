"""What the operator's configuration forbids or does not have: rules that the CRD cannot know.

A broken rule is data, not an exception: the pods that run stay as they are, and a condition says why.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from specfleet.api.configuration import Configuration
from specfleet.api.resource import PoolSpec, SpeculativeDeployment
from specfleet.engines.engine import Engine, Refusal
from specfleet.planning.container import has_own_shared_memory
from specfleet.planning.deployment import replicas_owner
from specfleet.planning.gpus import amount, gpus_per_pod
from specfleet.planning.pool_design import VERSION_PLACE

LIMIT_EXCEEDED = "LimitExceeded"
SERVICE_ACCOUNT_NOT_ALLOWED = "ServiceAccountNotAllowed"
IMAGE_MISSING = "ImageMissing"
TOO_FEW_GPUS = "TooFewGpus"
TOO_LITTLE_MEMORY = "TooLittleMemory"
UNKNOWN_METRICS_SOURCE = "UnknownMetricsSource"


def admission_refusals(
    resource: SpeculativeDeployment,
    configuration: Configuration,
    engine: Engine,
    deployments: Mapping[str, Mapping[str, Any]],
) -> tuple[Refusal, ...]:
    """Give every reason at once. ``deployments`` are the live ones of the resource, by pool."""
    return (
        *engine.refusals(resource.spec),
        *_service_accounts(resource, configuration),
        *_ceilings(resource, configuration, deployments),
        *_images(resource, configuration, engine),
        *_devices(resource, engine),
        *_shared_memory(resource, engine),
        *_metrics_source(resource, configuration),
    )


def _images(
    resource: SpeculativeDeployment, configuration: Configuration, engine: Engine
) -> Iterator[Refusal]:
    """Every container needs an image, and a default one must be of the version that is asked for."""
    engine_spec, defaults = resource.spec.engine, configuration.images.model_dump()
    if not engine_spec.image and not defaults[engine.name]:
        yield Refusal(
            IMAGE_MISSING,
            f"the operator's configuration has no image for engine {engine.name}: write engine.image, or "
            "have it added there",
        )
    elif not engine_spec.image and engine_spec.version and VERSION_PLACE not in defaults[engine.name]:
        yield Refusal(
            IMAGE_MISSING,
            f"the operator's image for engine {engine.name} is of one version: write engine.image for "
            f"version {engine_spec.version}, or leave the version out",
        )
    plugin = engine.runtime(resource.spec).plugin
    if plugin is not None and not defaults[plugin.image]:
        yield Refusal(
            IMAGE_MISSING,
            "the operator's configuration has no image for the plug-in by which the depth changes: have it "
            "added there",
        )


def _devices(resource: SpeculativeDeployment, engine: Engine) -> Iterator[Refusal]:
    """Without GPUs nothing is known: a CPU shares its cores as it likes."""
    wanted = engine.devices(resource.spec)
    for pool in resource.spec.pools:
        held = gpus_per_pod(pool.template.resources)
        if 0 < held < wanted:
            yield Refusal(
                TOO_FEW_GPUS,
                f"pool {pool.name}: the engine uses {wanted} GPUs in a pod that has {held}: raise "
                f"template.resources.limits to {wanted}, or lower engine.tensorParallelSize",
                pool=pool.name,
            )


def _shared_memory(resource: SpeculativeDeployment, engine: Engine) -> Iterator[Refusal]:
    """What is written to /dev/shm counts against the pod's memory limit.

    How much that may be is known only of the volume that specfleet mounts there.
    """
    needed = engine.runtime(resource.spec).shared_memory_mib
    for pool in resource.spec.pools:
        limit = pool.template.resources.limits.get("memory")
        if needed is None or limit is None or has_own_shared_memory(pool.template):
            continue
        if amount(limit) < needed * 2**20:
            yield Refusal(
                TOO_LITTLE_MEMORY,
                f"pool {pool.name}: /dev/shm may take {needed} MiB of the memory limit {limit}: raise "
                "template.resources.limits.memory, or mount a smaller emptyDir at /dev/shm",
                pool=pool.name,
            )


def _service_accounts(resource: SpeculativeDeployment, configuration: Configuration) -> Iterator[Refusal]:
    allowed = {"", "default", *configuration.allowed_service_accounts}
    for pool in resource.spec.pools:
        account = pool.template.service_account_name
        if account not in allowed:
            yield Refusal(
                SERVICE_ACCOUNT_NOT_ALLOWED,
                f"pool {pool.name}: template.serviceAccountName {account} is not allowed by the operator's "
                f"configuration: write one of {', '.join(sorted(allowed - {''}))}, or have it added there",
                pool=pool.name,
            )


def _ceilings(
    resource: SpeculativeDeployment,
    configuration: Configuration,
    deployments: Mapping[str, Mapping[str, Any]],
) -> Iterator[Refusal]:
    """Compare the sums over all pools with the ceilings for one object."""
    counts = {pool.name: wanted_replicas(pool, deployments.get(pool.name)) for pool in resource.spec.pools}
    gpus = sum(counts[pool.name] * gpus_per_pod(pool.template.resources) for pool in resource.spec.pools)
    limits = configuration.limits
    for asked, ceiling, what in (
        (sum(counts.values()), limits.max_replicas, "replicas"),
        (gpus, limits.max_gpus, "GPUs"),
    ):
        if asked > ceiling:
            yield Refusal(
                LIMIT_EXCEEDED,
                f"the pools ask for {asked} {what} together, the operator's configuration allows {ceiling} "
                "for one resource: lower replicas or the autoscaler's maximum, or have the limit raised",
            )


def wanted_replicas(pool: PoolSpec, live: Mapping[str, Any] | None) -> int:
    """Count the pods that are wanted: by an autoscaler, else by the spec, else the 1 of a new Deployment."""
    if live is not None and (pool.replicas is None or replicas_owner(live) is not None):
        return int(live["spec"].get("replicas", 1))
    return 1 if pool.replicas is None else pool.replicas


def _metrics_source(resource: SpeculativeDeployment, configuration: Configuration) -> Iterator[Refusal]:
    source = resource.spec.tuning.metrics_source
    if source not in configuration.metrics_sources:
        known = ", ".join(sorted(configuration.metrics_sources)) or "none so far"
        yield Refusal(
            UNKNOWN_METRICS_SOURCE,
            f"tuning.metricsSource {source} is not in the operator's configuration (there: {known}): pods "
            "serve, but nothing is measured or tuned",
            holds=False,
        )
