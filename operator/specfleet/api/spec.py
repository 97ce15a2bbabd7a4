"""What a user writes into a `SpeculativeDeployment`: fields, defaults, bounds and rules.

Each field says its meaning, unit and default, and what a change does: applied live, rolls the pods, or
also starts a new baseline (measurements from before are not compared any more). Source: design/api.md.
"""

import itertools
import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from specfleet.api.fields import (
    NOT_STORED,
    DataKey,
    Depth,
    GoDuration,
    ObjectName,
    Percent,
    Written,
)
from specfleet.api.owned import OWNED_ENV_PREFIX, OWNED_FLAGS
from specfleet.api.pod_settings import PodSettings
from specfleet.api.rules import ListMap, Rule, Rules, matching

_SEGMENT = "(/[.]?[A-Za-z0-9_-][A-Za-z0-9._-]*)"

ModelUri = Annotated[
    str,
    Field(max_length=1024),
    Rules(
        matching(
            f"^(|file://{_SEGMENT}+|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?{_SEGMENT}*)$",
            "model.uri must be file:///path (a directory in the engine's image) or pvc://claim/path (a claim of "
            "this namespace), without '..' and without '/' at the end; no other scheme is served",
        ),
    ),
]


class ModelSpec(Written):
    """The model that is served."""

    uri: ModelUri = ""
    """Where its files are: file:///path in the engine's image, or pvc://claim/path. Required with engine.type
    builtin, refused with simulated. Changing it rolls the pods and starts a new baseline."""
    served_name: Annotated[
        str,
        Field(max_length=128),
        Rules(matching("^[A-Za-z0-9._/:-]*$", "servedName must be letters, digits and . _ / : - only")),
    ] = ""
    """Name of the model in requests. Default: metadata.name. Changing it rolls the pods."""


class SimulatedSpec(Written):
    """Cost and acceptance of the simulated engine. Changing any of it rolls the pods and starts a new
    baseline."""

    repetitive_acceptance_percent: Percent = 85
    """Chance in percent that one drafted token is accepted in repetitive text. Default: 85."""
    free_acceptance_percent: Percent = 30
    """Chance in percent that one drafted token is accepted in free text. Default: 30."""
    step_time: GoDuration = "20ms"
    """Time of a memory-bound step at batch 1, a Go duration. Default: 20ms."""
    knee_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 32
    """Tokens that a step carries before it becomes compute-bound and slower. Default: 32."""
    kv_cache_tokens: Annotated[int, Field(ge=16, le=100_000_000)] = 65536
    """Size of the simulated KV cache in tokens; at least engine.maxModelLen. Default: 65536."""


class SecretKey(Written):
    """One key of a Secret or ConfigMap of this namespace."""

    name: ObjectName
    """Name of the object."""
    key: DataKey
    """Key in its data."""


class EnvSource(Written):
    """Where a value comes from, with exactly one source; the operator never reads it."""

    secret_key_ref: SecretKey | None = None
    """A key of a Secret."""
    config_map_key_ref: SecretKey | None = None
    """A key of a ConfigMap."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "valueFrom needs exactly one of secretKeyRef and configMapKeyRef",
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            lambda own: (own.secret_key_ref is None) != (own.config_map_key_ref is None),
        ),
    )


class EnvVar(Written):
    """One environment variable of the engine container."""

    name: Annotated[
        str,
        Field(max_length=128),
        Rules(
            matching(
                "^[A-Za-z_][A-Za-z0-9_]*$", "must be letters, digits and '_', and not start with a digit"
            ),
            Rule(
                f"names with {OWNED_ENV_PREFIX} belong to specfleet: choose another name",
                f"!self.startsWith('{OWNED_ENV_PREFIX}')",
                lambda name: not name.startswith(OWNED_ENV_PREFIX),
            ),
        ),
    ]
    """Name of the variable; unique."""
    value: Annotated[str, Field(max_length=4096)] | None = None
    """Its value. For secrets use valueFrom."""
    value_from: EnvSource | None = None
    """Where its value comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "an env entry needs exactly one of value and valueFrom",
            "has(self.value) != has(self.valueFrom)",
            lambda own: (own.value is None) != (own.value_from is None),
        ),
    )


_FLAGS = "|".join(flag.removeprefix("--") for flag in OWNED_FLAGS)
_OWNED_FLAG = f"^--({_FLAGS})(=.*)?$"
Argument = Annotated[
    str,
    Field(min_length=1, max_length=512),
    Rules(
        Rule(
            "extraArgs must not name a flag that specfleet sets itself "
            f"({', '.join(OWNED_FLAGS)}): use the field of the spec that stands for it",
            f"!self.matches('{_OWNED_FLAG}')",
            lambda argument: re.match(_OWNED_FLAG, argument) is None,
        )
    ),
]


class EngineSpec(Written):
    """The inference engine in the pods."""

    type: Literal["builtin", "simulated"]
    """builtin serves a real model; simulated waits like one and invents text, to try the operator without a
    GPU. Changing it rolls the pods and starts a new baseline."""
    image: Annotated[
        str,
        Field(max_length=512),
        Rules(
            matching(
                "^[A-Za-z0-9._/:@-]*$",
                "image must be a reference such as registry/name:tag or name@sha256:...",
            )
        ),
    ] = ""
    """Container image. Default: the operator's image for this type. Changing it rolls the pods and starts a
    new baseline."""
    dtype: Annotated[Literal["float32", "bfloat16"], Field(json_schema_extra=NOT_STORED)] = "bfloat16"
    """Number format of weights and arithmetic; float32 is the exact one on CPUs. Only with engine.type
    builtin. Default: bfloat16. Changing it rolls the pods and starts a new baseline."""
    max_model_len: Annotated[int, Field(ge=16, le=1_048_576)] = 2048
    """Longest sequence in tokens, prompt and output together. Default: 2048. Changing it rolls the pods and
    starts a new baseline."""
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] = 16
    """Most requests in one batch of one pod; further ones wait. Default: 16. Changing it rolls the pods and
    starts a new baseline."""
    extra_args: Annotated[tuple[Argument, ...], Field(max_length=32)] = ()
    """Further command-line arguments of the engine, after specfleet's own; never a flag that specfleet sets.
    Default: none. Changing them rolls the pods and starts a new baseline."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), ListMap("name")] = ()
    """Further environment variables of the engine. Default: none. Changing them rolls the pods."""
    simulated: SimulatedSpec | None = None
    """Cost and acceptance of the simulated engine; only with engine.type simulated. Default: its own
    defaults."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "engine.simulated is only for engine.type simulated: drop the block, or change the type",
            "self.type == 'simulated' || !has(self.simulated)",
            lambda own: own.type == "simulated" or own.simulated is None,
            field="simulated",
        ),
        Rule(
            "engine.dtype has no meaning with engine.type simulated: drop it",
            "self.type != 'simulated' || !has(self.dtype)",
            lambda own: own.type != "simulated" or "dtype" not in own.model_fields_set,
            field="dtype",
        ),
        Rule(
            "simulated.kvCacheTokens must be at least maxModelLen, or the longest request never fits",
            "!has(self.simulated) || self.simulated.kvCacheTokens >= self.maxModelLen",
            lambda own: own.simulated is None or own.simulated.kv_cache_tokens >= own.max_model_len,
            field="simulated.kvCacheTokens",
        ),
    )


class DepthSpec(Written):
    """Bounds of the speculative depth, in drafted tokens per verification step; 0 <= initial <= max <= 16."""

    initial: Depth = 2
    """Depth that pods start with, until the tuner knows better. Default: 2. Changing it rolls the pods."""
    max: Depth = 5
    """Largest depth that may ever be used; it sizes buffers of the engine. Default: 5. Changing it rolls the
    pods and starts a new baseline."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "depth.initial (default 2) must not exceed depth.max (default 5): lower initial or raise max",
            "self.initial <= self.max",
            lambda own: own.initial <= own.max,
            field="initial",
        ),
    )


class NgramSpec(Written):
    """How the n-gram proposer looks up: the longest match of the last tokens earlier in the sequence wins."""

    min_match: Annotated[int, Field(ge=1, le=32)] = 2
    """Shortest match in tokens. Default: 2. Changing it rolls the pods and starts a new baseline."""
    max_match: Annotated[int, Field(ge=1, le=32)] = 5
    """Longest match in tokens. Default: 5. Changing it rolls the pods and starts a new baseline."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "ngram.minMatch (default 2) must not exceed ngram.maxMatch (default 5): lower minMatch "
            "or raise maxMatch",
            "self.minMatch <= self.maxMatch",
            lambda own: own.min_match <= own.max_match,
            field="minMatch",
        ),
    )


class SpeculationSpec(Written):
    """What drafts tokens, and how many."""

    method: Literal["ngram", "none"]
    """ngram drafts by looking back in the sequence; none serves without a proposer. Changing it rolls the
    pods and starts a new baseline."""
    depth: DepthSpec = Field(default=DepthSpec(), json_schema_extra=NOT_STORED)
    """Bounds of the speculative depth. Default: initial 2, max 5; with method none 0 and 0."""
    ngram: NgramSpec | None = None
    """Settings of the n-gram proposer; only with method ngram. Default: its own defaults."""

    @model_validator(mode="before")
    @classmethod
    def _no_depth_without_a_proposer(cls, written: Any) -> Any:
        # So that whoever reads depth needs no special case for method none.
        if isinstance(written, dict) and written.get("method") == "none" and "depth" not in written:
            return written | {"depth": {"initial": 0, "max": 0}}
        return written

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "speculation.ngram is only for method ngram: drop the block, or change the method",
            "self.method == 'ngram' || !has(self.ngram)",
            lambda own: own.method == "ngram" or own.ngram is None,
            field="ngram",
        ),
        Rule(
            "method none never drafts: drop speculation.depth, or choose a method",
            "self.method != 'none' || !has(self.depth) || self.depth.max == 0",
            lambda own: own.method != "none" or own.depth.max == 0,
            field="depth",
        ),
        Rule(
            "depth.max must be at least 1 with this method; to serve without speculation write method: none",
            "self.method == 'none' || !has(self.depth) || self.depth.max >= 1",
            lambda own: own.method == "none" or own.depth.max >= 1,
            field="depth",
        ),
    )


class Objectives(Written):
    """What "better" is constrained by. Every field is optional, so that a pool can override one of them.

    All of it is applied live.
    """

    time_per_output_token: GoDuration | None = None
    """Longest mean time per output token, a Go duration such as 40ms. Default: no limit. Applied live."""
    time_to_first_token: GoDuration | None = None
    """Longest p95 of the time to the first token, a Go duration. Default: no limit. Applied live."""
    queue_delay: GoDuration | None = None
    """Longest mean wait before a request starts, a Go duration; above it depth is lowered first. Default:
    half of timeToFirstToken, without one no limit. Applied live."""
    kv_headroom_percent: Percent | None = None
    """Share of KV-cache blocks that must stay free, in percent; below it depth is lowered. Default: 10.
    Applied live."""


class ScheduleRow(Written):
    """One row of a schedule: the depth for running requests above the row before, up to maxRequests."""

    max_requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Running requests of one pod up to which this row holds, inclusive. The last row leaves it out."""
    depth: Depth
    """Drafted tokens per verification step; 0 drafts nothing."""


MAX_ROWS = 32

PinnedSchedule = Annotated[
    tuple[ScheduleRow, ...],
    Field(min_length=1, max_length=MAX_ROWS),
    Rules(
        Rule(
            "the last row of schedule must be open: leave out its maxRequests",
            "size(self) == 0 || !has(self[size(self) - 1].maxRequests)",
            lambda rows: rows[-1].max_requests is None,
        ),
        Rule(
            "schedule must be sorted by maxRequests without repeats, and only its last row may leave it out",
            # Indices are written out: standard CEL has no range.
            f"{list(range(MAX_ROWS - 1))}.all(i, i + 1 >= size(self) || (has(self[i].maxRequests) && "
            "(!has(self[i + 1].maxRequests) || self[i].maxRequests < self[i + 1].maxRequests)))",
            lambda rows: all(
                row.max_requests is not None
                and (after.max_requests is None or row.max_requests < after.max_requests)
                for row, after in itertools.pairwise(rows)
            ),
        ),
    ),
]


class TuningSpec(Written):
    """What the tuner may do. All of it is applied live."""

    mode: Literal["Observe", "Recommend", "Enforce"] = "Recommend"
    """Observe measures only; Recommend also publishes the schedule it would push; Enforce pushes it. Default:
    Recommend. Applied live."""
    paused: bool = False
    """Freeze the schedule where it is; measuring goes on. Default: false. Applied live."""
    metrics_source: Annotated[
        str,
        Field(max_length=63),
        Rules(
            matching(
                "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                "metricsSource is a name from the operator's configuration, never an address: lower-case "
                "letters, digits and '-'",
            )
        ),
    ] = "default"
    """Name of a metrics source in the operator's configuration. Default: default. Applied live."""
    max_pushes_per_hour: Annotated[int, Field(ge=1, le=60)] = 6
    """Most schedule changes of a pool in one hour, probes not counted. Default: 6. Applied live."""
    schedule: PinnedSchedule | None = None
    """Manual pin: this schedule is in force, and the tuner only measures. Default: none. Applied live."""


class PoolTuning(Written):
    """Overrides of spec.tuning for one pool. All of it is applied live."""

    mode: Literal["Observe", "Recommend", "Enforce"] | None = None
    """As in spec.tuning. Default: the value there. Applied live."""
    paused: bool | None = None
    """As in spec.tuning. Default: the value there. Applied live."""
    max_pushes_per_hour: Annotated[int, Field(ge=1, le=60)] | None = None
    """As in spec.tuning. Default: the value there. Applied live."""
    schedule: PinnedSchedule | None = None
    """As in spec.tuning. Default: the value there. Applied live."""


class PoolSpec(Written):
    """Replicas with one model, hardware, engine and traffic class: the unit that is tuned."""

    name: Annotated[
        str,
        Field(max_length=20),
        Rules(
            matching(
                "^[a-z]([-a-z0-9]*[a-z0-9])?$",
                "a pool's name must start with a lower-case letter, and be lower-case letters, digits and '-' "
                "without '-' at the end",
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


# What DepthSpec has without a `depth` in the resource; never stored, so CEL has to be told.
_MAX_DEPTH = (
    "(self.speculation.method == 'none' ? 0 : "
    f"has(self.speculation.depth) ? self.speculation.depth.max : {DepthSpec().max})"
)


class Spec(Written):
    """What is served, by what, how speculatively, and on how many pods."""

    model: ModelSpec = ModelSpec()
    """The model that is served; required with engine.type builtin."""
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
            "model.uri is required with engine.type builtin: write file:///path or pvc://claim/path",
            "self.engine.type != 'builtin' || "
            "(has(self.model) && has(self.model.uri) && self.model.uri != '')",
            lambda own: own.engine.type != "builtin" or own.model.uri != "",
            field="model",
        ),
        Rule(
            "model.uri has no meaning with engine.type simulated, which reads no model: drop it",
            "self.engine.type != 'simulated' || "
            "!has(self.model) || !has(self.model.uri) || self.model.uri == ''",
            lambda own: own.engine.type != "simulated" or own.model.uri == "",
            field="model",
        ),
        Rule(
            "tuning.schedule must stay within speculation.depth.max (default 5; 0 with method none): lower the "
            "rows' depth or raise depth.max",
            f"!has(self.tuning) || !has(self.tuning.schedule) || "
            f"self.tuning.schedule.all(row, row.depth <= {_MAX_DEPTH})",
            lambda own: _pins_within(own.tuning.schedule, own.speculation.depth.max),
            field="tuning",
        ),
        Rule(
            "pools[].tuning.schedule must stay within speculation.depth.max (default 5; 0 with method none): lower "
            "the rows' depth or raise depth.max",
            "self.pools.all(pool, !has(pool.tuning) || !has(pool.tuning.schedule) || "
            f"pool.tuning.schedule.all(row, row.depth <= {_MAX_DEPTH}))",
            lambda own: all(
                _pins_within(pool.tuning.schedule, own.speculation.depth.max) for pool in own.pools
            ),
            field="pools",
        ),
    )
