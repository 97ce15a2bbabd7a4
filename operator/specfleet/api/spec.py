"""What a user writes into a `SpeculativeDeployment`: the pools, and all that holds for them.

Each field says its meaning, unit and default, and what a change does: applied live, rolls the pods, or also
starts a new baseline (measurements from before are not compared any more). Source: design/api.md.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from specfleet.api.engine_spec import EngineSpec
from specfleet.api.engine_versions import (
    ENDED,
    METHODS,
    SGLANG,
    TESTED_VERSIONS,
    VLLM,
    pattern_of,
    release_line,
)
from specfleet.api.fields import Written
from specfleet.api.model_spec import ModelSpec
from specfleet.api.model_uri import SCHEMES
from specfleet.api.pod_settings import PodSettings
from specfleet.api.rules import ListMap, Rule, Rules, matching
from specfleet.api.source_rules import SOURCE_RULES
from specfleet.api.speculation_spec import DepthSpec, SpeculationSpec
from specfleet.api.tuning_spec import Objectives, PoolTuning, ScheduleRow, TuningSpec


class PoolSpec(Written):
    """Replicas with one model, hardware, engine and traffic class: the unit that is tuned."""

    name: Annotated[
        str,
        Field(max_length=20),
        Rules(
            matching(
                "^[a-z]([-a-z0-9]*[a-z0-9])?$",
                "a pool's name must start with a lower-case letter, and be lower-case letters, digits and "
                "'-' without '-' at the end",
            )
        ),
    ]
    """Name of the pool, unique, at most 20 characters. A changed name is another pool: the old one's pods
    go."""
    replicas: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Number of pods. Leave it out when an autoscaler sets it on the pool's Deployment. Default: 1 at
    creation, then whatever the autoscaler sets. Applied live."""
    objectives: Objectives = Objectives()
    """Overrides of spec.objectives for this pool, field by field. Applied live."""
    tuning: PoolTuning = PoolTuning()
    """Overrides of spec.tuning for this pool, field by field. Applied live."""
    template: PodSettings = PodSettings()
    """The allow-listed part of the pool's pods; nothing else can be set."""


def _pins_within(rows: tuple[ScheduleRow, ...] | None, depth: int) -> bool:
    return rows is None or all(row.depth <= depth for row in rows)


def _method_rule(engine: str, known: tuple[str, ...]) -> Rule:
    *some, last = known
    return Rule(
        f"engine.type {engine} does not serve this method: write method {', '.join(some)} or {last}",
        f"self.engine.type != '{engine}' || self.speculation.method in {list(known)}",
        lambda own: own.engine.type != engine or own.speculation.method in known,
        field="speculation.method",
    )


def _ended_rule(engine: str, method: str, lines: tuple[str, ...]) -> Rule:
    version = "(has(self.engine.version) && self.engine.version != '' ? self.engine.version : '{}')"
    return Rule(
        f"method {method} ended with {engine} {lines[-1]}: write an engine.version {lines[-1]}.x, or choose "
        "another method",
        f"self.engine.type != '{engine}' || self.speculation.method != '{method}' || "
        f"{version.format(TESTED_VERSIONS[engine])}.matches('{pattern_of(lines)}')",
        lambda own: (
            own.engine.type != engine
            or own.speculation.method != method
            or release_line(own.engine.dialect) in lines
        ),
        field="speculation.method",
    )


# What DepthSpec has without a `depth` in the resource; never stored, so CEL has to be told.
_MAX_DEPTH = (
    "(self.speculation.method == 'none' ? 0 : "
    f"has(self.speculation.depth) ? self.speculation.depth.max : {DepthSpec().max})"
)


class Spec(Written):
    """What is served, by what, how speculatively, and on how many pods."""

    model: ModelSpec = ModelSpec()
    """The model that is served; required with every engine.type but simulated."""
    engine: EngineSpec
    """The inference engine in the pods."""
    speculation: SpeculationSpec
    """What drafts tokens, and how many."""
    objectives: Objectives = Objectives()
    """What "better" is constrained by, for all pools that do not override it. Applied live."""
    tuning: TuningSpec = TuningSpec()
    """What the tuner may do, for all pools that do not override it. Applied live."""
    pools: Annotated[tuple[PoolSpec, ...], Field(min_length=1, max_length=8), ListMap("name")]
    """One to eight pools. Adding or removing one leaves the others as they are."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"model.uri is required with every engine.type but simulated: write {SCHEMES}",
            "self.engine.type == 'simulated' || "
            "(has(self.model) && has(self.model.uri) && self.model.uri != '')",
            lambda own: own.engine.type == "simulated" or own.model.uri != "",
            field="model",
        ),
        Rule(
            "model.uri has no meaning with engine.type simulated, which reads no model: drop it",
            "self.engine.type != 'simulated' || "
            "!has(self.model) || !has(self.model.uri) || self.model.uri == ''",
            lambda own: own.engine.type != "simulated" or own.model.uri == "",
            field="model",
        ),
        *SOURCE_RULES,
        # vllm has every method in one version or another.
        *(_method_rule(engine, known) for engine, known in METHODS.items() if engine != VLLM),
        *(_ended_rule(engine, method, lines) for (engine, method), lines in ENDED.items()),
        Rule(
            "speculation.ngram has no counterpart in sglang, which matches at every length: drop the block",
            "self.engine.type != 'sglang' || !has(self.speculation.ngram)",
            lambda own: own.engine.type != SGLANG or own.speculation.ngram is None,
            field="speculation.ngram",
        ),
        Rule(
            "tuning.schedule must stay within speculation.depth.max (default 5; 0 with method none): lower "
            "the rows' depth or raise depth.max",
            f"!has(self.tuning) || !has(self.tuning.schedule) || "
            f"self.tuning.schedule.all(row, row.depth <= {_MAX_DEPTH})",
            lambda own: _pins_within(own.tuning.schedule, own.speculation.depth.max),
            field="tuning",
        ),
        Rule(
            "pools[].tuning.schedule must stay within speculation.depth.max (default 5; 0 with method none): "
            "lower the rows' depth or raise depth.max",
            "self.pools.all(pool, !has(pool.tuning) || !has(pool.tuning.schedule) || "
            f"pool.tuning.schedule.all(row, row.depth <= {_MAX_DEPTH}))",
            lambda own: all(
                _pins_within(pool.tuning.schedule, own.speculation.depth.max) for pool in own.pools
            ),
            field="pools",
        ),
    )
