"""What the tuner is given for one pool: its settings, and what cluster and Prometheus know of it. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import Object
from specfleet.api.objectives import effective_objectives, effective_tuning
from specfleet.api.resource import Status
from specfleet.api.schedule import Table, flat
from specfleet.controller.fleet import PoolView
from specfleet.engines.dictionaries import METRICS
from specfleet.engines.metrics import MetricDictionary
from specfleet.engines.registry import ENGINES
from specfleet.planning.gpus import gpus_per_pod
from specfleet.planning.served import proposer_key
from specfleet.planning.start_budget import start_seconds
from specfleet.planning.start_table import start_table, started_with
from specfleet.telemetry.samples import Readings
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.interval import PodInterval, PodKey
from specfleet.tuning.settings import PoolSettings

WARM_UP_SCRAPES = 12  # 180 s at 15 s: graph capture and cold caches, design/tuning.md section 11
# A pod with a GPU goes before the new one comes: 2 to 8 min, design/tuning.md section 2.
RESTART_SECONDS = 300.0
VARIABLE_DRAFTS = frozenset({"ngram", "suffix"})  # looked up in the text: as long as the match, or none
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"  # set on nodes by the maker's feature discovery
# How reconcile says that a plan, or an object of it, is refused.
HELD = frozenset({("Ready", "Blocked"), ("Degraded", "ApplyRefused")})


def settings_of(view: PoolView, configuration: Configuration) -> PoolSettings:
    """Join what the resource, its pool and the operator's configuration ask for."""
    spec = view.resource.spec
    engine = ENGINES[spec.engine.type]
    actuator = engine.actuation(spec).actuator
    of_one_pod = start_seconds(engine, spec, view.pool.template) + engine.timing.grace
    return PoolSettings(
        objectives=effective_objectives(spec, view.pool),
        tuning=effective_tuning(spec, view.pool),
        pace=configuration.tuning,
        initial_depth=spec.speculation.depth.initial,
        max_depth=spec.speculation.depth.max,
        max_requests=spec.engine.max_num_seqs,
        gpu_product=view.pool.template.node_selector.get(GPU_PRODUCT_LABEL, ""),
        actuator=actuator,
        rollout_seconds=of_one_pod * max(1, view.replicas or 1) if actuator == "rollout" else 0.0,
        proposer=proposer_key(view.resource),
        restart_seconds=RESTART_SECONDS if gpus_per_pod(view.pool.template.resources) else 0.0,
        held=_is_held(view.resource.status),
    )


def _is_held(status: Status) -> bool:
    """Say whether reconcile refuses something: then it may leave the pods as they are."""
    said = {(one.type, one.reason) for one in status.conditions}
    return not said.isdisjoint(HELD)


def metrics_of(view: PoolView) -> MetricDictionary:
    """Give the dictionary of the pool's engine."""
    return METRICS[view.resource.spec.engine.type]


def tables_by_pods(view: PoolView, newest: Table | None) -> dict[PodKey, Table]:
    """Tell the table of every pod that keeps the one it was started with.

    A container that was restarted after the table had changed has read the file anew: of a pod with an older
    table nothing is known then.
    """
    tables = ((key, pod, started_with(pod["metadata"])) for key, pod in view.ready.items())
    return {
        key: table
        for key, pod, table in tables
        if table is not None and (table == newest or not _was_restarted(pod))
    }


def _newest_table(view: PoolView) -> Table | None:
    engine = ENGINES[view.resource.spec.engine.type]
    return start_table(view.served, view.pool, engine, view.schedule, running=None)


def _was_restarted(pod: Object) -> bool:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(container.get("restartCount", 0) > 0 for container in containers)


def versions_by_pods(
    view: PoolView, tables: Mapping[PodKey, Table], newest: Table | None
) -> dict[PodKey, tuple[int, int]]:
    """Tell the version in force where pods are rolled for it: from what a pod was started with."""
    spec, document = view.served.spec, view.document
    if document is None or ENGINES[spec.engine.type].actuation(spec).actuator != "rollout":
        return {}
    version = (document.fence, document.version)
    return {key: version for key, table in tables.items() if table == newest}


def _dated(interval: PodInterval, versions: Mapping[PodKey, tuple[int, int]]) -> PodInterval:
    if interval.version is not None or (version := versions.get(interval.pod)) is None:
        return interval
    return replace(interval, version=version, version_at_start=version)


def evidence_of(
    view: PoolView, readings: Readings, fault: str | None, configuration: Configuration, now: float
) -> Evidence:
    """Pick one pool's part of a pass. ``fault``: why the metrics source gave nothing.

    An engine whose depth is fixed has, in effect, a table with that one depth.
    """
    expected, document = frozenset(view.ready), view.document
    spec, dictionary = view.served.spec, metrics_of(view)
    method = spec.speculation.method
    follows = ENGINES[spec.engine.type].actuation(spec).actuator != "fixed"
    if document is not None and not follows:
        document = replace(document, table=flat(spec.speculation.depth.initial if method != "none" else 0))
    seconds = WARM_UP_SCRAPES * configuration.tuning.scrape_interval_seconds
    newest = _newest_table(view)
    tables = tables_by_pods(view, newest)
    versions = {**readings.versions, **versions_by_pods(view, tables, newest)}
    return Evidence(
        document=document,
        fingerprints=view.fingerprints,
        expected=expected,
        reporting=readings.reporting & expected,
        warming=view.warming(datetime.fromtimestamp(now - seconds, UTC)),
        intervals=tuple(_dated(i, versions) for i in readings.intervals if i.pod in expected),
        versions=versions,
        tables=tables,
        query_fault=fault,
        replicas=view.replicas,
        missing={
            pod: dictionary.missing(names, speculating=method != "none" and spec.speculation.depth.max > 0)
            for pod, names in readings.names.items()
            if pod in expected
        },
        engine=f"{dictionary.label} {spec.engine.dialect}".rstrip(),
        variable_drafts=method in VARIABLE_DRAFTS,
        follows_schedule=follows,
    )
