"""What the operator's configuration forbids or does not have: rules that the CRD cannot know.

A broken rule is data, not an exception: the pods that run stay as they are, and a condition says why.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from specfleet.api.configuration import Configuration
from specfleet.api.resource import PoolSpec, SpeculativeDeployment
from specfleet.engines.engine import Engine, Refusal
from specfleet.planning.deployment import replicas_owner
from specfleet.planning.gpus import gpus_per_pod

LIMIT_EXCEEDED = "LimitExceeded"
SERVICE_ACCOUNT_NOT_ALLOWED = "ServiceAccountNotAllowed"
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
        *_metrics_source(resource, configuration),
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
