"""What is served and by what: the model, the engine and what its container is started with."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specfleet.api.fields import NOT_STORED, DataKey, GoDuration, ObjectName, Percent, Written
from specfleet.api.model_uri import LONGEST_URI, served_uri
from specfleet.api.owned import OWNED_ENV_PREFIX, OWNED_FLAGS
from specfleet.api.rules import ListMap, Rule, Rules, matching

ModelUri = Annotated[str, Field(max_length=LONGEST_URI), Rules(served_uri("model.uri", optional=True))]


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
    kv_cache_mib: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    """Most memory for the KV cache of one pod, in MiB, beside the weights of model and proposer; less is
    taken when maxNumSeqs sequences of maxModelLen need less. Only with engine.type builtin. Default: the
    engine's own, 1024. Changing it rolls the pods and starts a new baseline."""
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
            "engine.kvCacheMib has no meaning with engine.type simulated: use engine.simulated.kvCacheTokens",
            "self.type != 'simulated' || !has(self.kvCacheMib)",
            lambda own: own.type != "simulated" or own.kv_cache_mib is None,
            field="kvCacheMib",
        ),
        Rule(
            "simulated.kvCacheTokens must be at least maxModelLen, or the longest request never fits",
            "!has(self.simulated) || self.simulated.kvCacheTokens >= self.maxModelLen",
            lambda own: own.simulated is None or own.simulated.kv_cache_tokens >= own.max_model_len,
            field="simulated.kvCacheTokens",
        ),
    )
