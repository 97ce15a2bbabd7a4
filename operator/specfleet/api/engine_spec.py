"""What serves: the engine and what its container is started with."""

import re
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specfleet.api.engine_versions import (
    DIALECTS,
    OWN_ENGINES,
    SGLANG,
    TESTED_VERSIONS,
    VLLM,
    pattern_of,
    versions_of,
)
from specfleet.api.env_vars import EnvVar
from specfleet.api.fields import NOT_STORED, GoDuration, Percent, Written
from specfleet.api.owned import OWNED_FLAGS, SGLANG_FLAGS, VLLM_FLAGS
from specfleet.api.rules import ListMap, Rule, Rules, matching


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


def _any_spelling(flags: tuple[str, ...]) -> str:
    """Match ``--a-b``, ``--a_b``, ``--a-b=1`` and ``--a-b.key=1``."""
    names = "|".join(flag.removeprefix("--").replace("-", "[-_]") for flag in flags)
    return f"^--({names})([.=].*)?$"


def _leaves_alone(engine: str, flags: tuple[str, ...]) -> Callable[["EngineSpec"], bool]:
    pattern = re.compile(_any_spelling(flags))
    return lambda own: own.type != engine or not any(map(pattern.fullmatch, own.extra_args))


def _speaks(engine: str, lines: tuple[str, ...]) -> Callable[["EngineSpec"], bool]:
    pattern = re.compile(pattern_of(lines))
    return lambda own: own.type != engine or own.version == "" or pattern.fullmatch(own.version) is not None


def _only_foreign(attribute: str) -> Callable[["EngineSpec"], bool]:
    return lambda own: own.type not in OWN_ENGINES or getattr(own, attribute) is None


class EngineSpec(Written):
    """The inference engine in the pods."""

    type: Literal["vllm", "sglang", "builtin", "simulated"]
    """vllm and sglang are driven as they are released; builtin is specfleet's own engine; simulated waits
    like one and invents text, to try the operator without a GPU. Changing it rolls the pods and starts a new
    baseline."""
    version: Annotated[
        str,
        Field(max_length=32),
        Rules(matching("^([0-9]+[.][0-9]+[.][0-9]+)?$", "version must be like 0.32.0")),
    ] = ""
    """Version of vllm or sglang whose arguments and metric names are used; it also picks the default image.
    Only with those two. Default: the version that this release is tested with. Changing it rolls the pods and
    starts a new baseline."""
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
    dtype: Annotated[Literal["float32", "bfloat16", "float16"], Field(json_schema_extra=NOT_STORED)] = (
        "bfloat16"
    )
    """Number format of weights and arithmetic; float32 is the exact one on CPUs. float16 with vllm and sglang
    only; none of them with simulated. Default: bfloat16. Changing it rolls the pods and starts a new
    baseline."""
    quantization: (
        Literal["awq", "compressed-tensors", "fp8", "gptq", "modelopt", "mxfp4", "mxfp8", "quark"] | None
    ) = None
    """How weights are quantised, where the checkpoint does not say it; only with vllm and sglang. Default: as
    the checkpoint says. Changing it rolls the pods and starts a new baseline."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] | None = None
    """GPUs of one pod that share each layer; a pod must have as many. Only with vllm and sglang. Default: 1.
    Changing it rolls the pods and starts a new baseline."""
    max_model_len: Annotated[int, Field(ge=16, le=1_048_576)] = 2048
    """Longest sequence in tokens, prompt and output together. Default: 2048. Changing it rolls the pods and
    starts a new baseline."""
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] = 16
    """Most requests in one batch of one pod; further ones wait. Default: 16. Changing it rolls the pods and
    starts a new baseline."""
    kv_cache_mib: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    """Memory for the KV cache, in MiB, beside the weights of model and proposer. builtin takes less when
    maxNumSeqs sequences of maxModelLen need less, and 1024 by default. vllm takes it on each GPU (or of the
    CPU's memory), by default what is left of the card. Only with these two. Changing it rolls the pods and
    starts a new baseline."""
    extra_args: Annotated[tuple[Argument, ...], Field(max_length=32)] = ()
    """Further command-line arguments of the engine, after specfleet's own; never a flag that specfleet sets.
    Default: none. Changing them rolls the pods and starts a new baseline."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), ListMap("name")] = ()
    """Further environment variables of the engine. Default: none. Changing them rolls the pods
    and starts a new baseline."""
    simulated: SimulatedSpec | None = None
    """Cost and acceptance of the simulated engine; only with engine.type simulated. Default: its own
    defaults."""

    @property
    def dialect(self) -> str:
        """The version whose arguments and names hold, such as 0.32.0; empty for engines of ours."""
        return self.version or TESTED_VERSIONS.get(self.type, "")

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
            "engine.version is for the engine types vllm and sglang: drop it",
            f"!(self.type in {list(OWN_ENGINES)}) || !has(self.version) || self.version == ''",
            lambda own: own.type not in OWN_ENGINES or own.version == "",
            field="version",
        ),
        *(
            Rule(
                f"engine.type {engine} is known in the versions {', '.join(map(versions_of, lines))}: "
                f"write version: {TESTED_VERSIONS[engine]}, or leave it out",
                f"self.type != '{engine}' || !has(self.version) || self.version == '' || "
                f"self.version.matches('{pattern_of(lines)}')",
                _speaks(engine, lines),
                field="version",
            )
            for engine, lines in DIALECTS.items()
        ),
        *(
            Rule(
                f"extraArgs must not name a flag that specfleet sets for {engine} ({', '.join(flags)}): use "
                "the field of the spec that stands for it",
                f"self.type != '{engine}' || !has(self.extraArgs) || "
                f"!self.extraArgs.exists(argument, argument.matches('{_any_spelling(flags)}'))",
                _leaves_alone(engine, flags),
                field="extraArgs",
            )
            for engine, flags in ((VLLM, VLLM_FLAGS), (SGLANG, SGLANG_FLAGS))
        ),
        *(
            Rule(
                f"engine.{name} is for the engine types vllm and sglang: drop it",
                f"!(self.type in {list(OWN_ENGINES)}) || !has(self.{name})",
                _only_foreign(attribute),
                field=name,
            )
            for name, attribute in (
                ("quantization", "quantization"),
                ("tensorParallelSize", "tensor_parallel_size"),
            )
        ),
        Rule(
            "engine.dtype float16 is for the engine types vllm and sglang: write bfloat16 or float32",
            f"!(self.type in {list(OWN_ENGINES)}) || !has(self.dtype) || self.dtype != 'float16'",
            lambda own: own.type not in OWN_ENGINES or own.dtype != "float16",
            field="dtype",
        ),
        Rule(
            "engine.kvCacheMib has no counterpart in sglang, which takes a share of the card: drop it, or "
            "write extraArgs: [--mem-fraction-static=0.8]",
            "self.type != 'sglang' || !has(self.kvCacheMib)",
            lambda own: own.type != "sglang" or own.kv_cache_mib is None,
            field="kvCacheMib",
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
