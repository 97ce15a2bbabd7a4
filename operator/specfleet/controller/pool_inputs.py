"""What the tuner is given for one pool: its settings, and what cluster and Prometheus know of it. Pure."""

from dataclasses import replace
from datetime import UTC, datetime

from specfleet.api.configuration import Configuration
from specfleet.api.objectives import effective_objectives, effective_tuning
from specfleet.api.schedule import flat
from specfleet.controller.fleet import PoolView
from specfleet.engines.dictionaries import METRICS
from specfleet.engines.metrics import MetricDictionary
from specfleet.engines.registry import ENGINES
from specfleet.telemetry.samples import Readings
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.settings import PoolSettings

WARM_UP_SCRAPES = 12  # 180 s at 15 s: graph capture and cold caches, design/tuning.md section 11
VARIABLE_DRAFTS = frozenset({"ngram", "suffix"})  # looked up in the text: as long as the match, or none
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"  # set on nodes by the maker's feature discovery


def settings_of(view: PoolView, configuration: Configuration) -> PoolSettings:
    """Join what the resource, its pool and the operator's configuration ask for."""
    spec = view.resource.spec
    return PoolSettings(
        objectives=effective_objectives(spec, view.pool),
        tuning=effective_tuning(spec, view.pool),
        pace=configuration.tuning,
        initial_depth=spec.speculation.depth.initial,
        max_depth=spec.speculation.depth.max,
        max_requests=spec.engine.max_num_seqs,
        gpu_product=view.pool.template.node_selector.get(GPU_PRODUCT_LABEL, ""),
    )


def metrics_of(view: PoolView) -> MetricDictionary:
    """Give the dictionary of the pool's engine."""
    return METRICS[view.resource.spec.engine.type]


def evidence_of(
    view: PoolView, readings: Readings, fault: str | None, configuration: Configuration, now: float
) -> Evidence:
    """Pick one pool's part of a pass. ``fault``: why the metrics source gave nothing.

    An engine whose depth is fixed has, in effect, a table with that one depth.
    """
    expected, document = frozenset(view.ready), view.document
    spec, dictionary = view.resource.spec, metrics_of(view)
    method = spec.speculation.method
    follows = ENGINES[spec.engine.type].actuation(method, spec.engine.dialect).actuator == "live"
    if document is not None and not follows:
        document = replace(document, table=flat(spec.speculation.depth.initial if method != "none" else 0))
    seconds = WARM_UP_SCRAPES * configuration.tuning.scrape_interval_seconds
    return Evidence(
        document=document,
        fingerprints=view.fingerprints,
        expected=expected,
        reporting=readings.reporting & expected,
        warming=view.warming(datetime.fromtimestamp(now - seconds, UTC)),
        intervals=tuple(i for i in readings.intervals if i.pod in expected),
        versions=readings.versions,
        query_fault=fault,
        replicas=view.replicas,
        missing={
            pod: dictionary.missing(names, speculating=method != "none")
            for pod, names in readings.names.items()
            if pod in expected
        },
        engine=f"{dictionary.label} {spec.engine.dialect}".rstrip(),
        variable_drafts=method in VARIABLE_DRAFTS,
        follows_schedule=follows,
    )
