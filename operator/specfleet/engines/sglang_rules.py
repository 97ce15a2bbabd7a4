"""What a stock SGLang cannot serve, by extra arguments: it would end at start, or serve something else.

Source: reference/engines.md section 3; sglang/srt/speculative/adaptive_spec_params.py in 0.5.23; the pull
request that is named.
"""

from collections.abc import Mapping
from types import MappingProxyType

from specfleet.api.resource import Spec
from specfleet.engines.extra_arguments import (
    FlagRule,
    Given,
    given,
    has_weights,
    names_of,
    number,
    speculates,
    switched_on,
)
from specfleet.engines.placement import PLACING_FLAGS, Placement, kv_element_bytes, offloaded_mib

_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "--model": "--model-path",
        "--tensor-parallel-size": "--tp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--data-parallel-size": "--dp-size",
        "--decode-context-parallel-size": "--dcp-size",
        "--attention-data-parallel-size": "--attn-dp-size",
        "--speculative-draft-model": "--speculative-draft-model-path",
    }
)

_ADAPTERS = ("--enable-lora", "--lora-paths")
# With any of these SGLang drops its adaptive mode, with one line in its log; with adapters it ends at start.
_UNADAPTIVE = (
    *_ADAPTERS,
    "--enable-dp-attention",
    "--attn-dp-size",
    "--enable-multi-layer-eagle",
    "--enable-two-batch-overlap",
    "--enable-pdmux",
)

RULES = (
    FlagRule(
        ("--speculative-accept-threshold-single", "--speculative-accept-threshold-acc"),
        "NotExact",
        "below 1 the text is no longer the model's: remove it",
    ),
    FlagRule(
        ("--api-key", "--admin-api-key"),
        "SecretInArguments",
        "a key in arguments can be read by everybody: write $(NAME), and env NAME with "
        "valueFrom.secretKeyRef",
        lambda spec, value: not value.startswith("$("),
    ),
    FlagRule(
        ("--ssl-keyfile", "--ssl-certfile"),
        "NotReachable",
        "probes, Services and Prometheus speak plain HTTP with the pod: end TLS before it",
    ),
    FlagRule(
        _ADAPTERS,
        "Lora",
        "SGLang serves no adapters beside a draft model (sgl-project/sglang#28395): write method eagle, "
        "eagle3, mtp, ngram or none",
        lambda spec, value: spec.speculation.method == "draftModel",
    ),
    FlagRule(
        ("--disaggregation-mode",),
        "Disaggregation",
        "the proposer's KV does not go from prefill to decode (sgl-project/sglang#30222): write method ngram "
        "or none",
        lambda spec, value: has_weights(spec) and value != "null",
    ),
    FlagRule(
        ("--config",), "OwnedFlag", "a file could set what specfleet sets: write its flags into extraArgs"
    ),
    FlagRule(
        ("--enable-dp-attention", "--attn-dp-size"),
        "AttentionDataParallel",
        "drafts of ngram and of a draft model do not run with attention data parallelism: write another "
        "method",
        lambda spec, value: spec.speculation.method in ("draftModel", "ngram"),
    ),
    FlagRule(
        ("--pp-size",),
        "PipelineParallel",
        "SGLang drafts over several stages with eagle and mtp only, and with SGLANG_ENABLE_PP_SPEC 1 in "
        "engine.env: raise engine.tensorParallelSize instead, or write method none",
        lambda spec, value: value != "1" and speculates(spec) and not _drafts_over_stages(spec),
    ),
    FlagRule(
        ("--enable-dp-attention", "--attn-dp-size", "--enable-multi-layer-eagle"),
        "PipelineParallel",
        "does not go with drafts over several stages: remove it, or --pp-size",
        lambda spec, value: number(flags_of(spec), "--pp-size") > 1 and _drafts_over_stages(spec),
    ),
)
_READ = PLACING_FLAGS | names_of(RULES) | {"--dp-size", "--dcp-size", *_UNADAPTIVE}


def flags_of(spec: Spec) -> Given:
    """Read the user's extra arguments as SGLang would."""
    return given(spec.engine.extra_args, _SHORT, _READ)


def unadaptive(spec: Spec) -> str:
    """Name the flag with which SGLang has one depth for all batches; empty: there is none."""
    flags = flags_of(spec)
    if number(flags, "--pp-size") > 1:
        return "--pp-size"
    return next((flag for flag in flags if flag.partition(".")[0] in _UNADAPTIVE), "")


def _drafts_over_stages(spec: Spec) -> bool:
    """Say whether SGLang was told to draft with a model that is split over stages, and can."""
    return spec.speculation.method in ("eagle", "mtp") and switched_on(spec, "SGLANG_ENABLE_PP_SPEC")


def gpus(spec: Spec) -> int:
    """Count the devices of one pod; attention data parallelism shares those of tensor parallelism."""
    flags = flags_of(spec)
    # Beside a size of its own, --enable-dp-attention leaves --dp-size the count of replicas.
    shared = "--enable-dp-attention" in flags and number(flags, "--attn-dp-size") == 1
    replicas = 1 if shared else number(flags, "--dp-size")
    return (spec.engine.tensor_parallel_size or 1) * number(flags, "--pp-size") * replicas


def placement(spec: Spec) -> Placement:
    """Say how the devices of one pod share the model; its replicas share nothing."""
    flags, tensor = flags_of(spec), spec.engine.tensor_parallel_size or 1
    return Placement(
        tensor=tensor,
        stages=number(flags, "--pp-size"),
        experts=tensor,
        contexts=number(flags, "--dcp-size"),
        offloaded_mib=offloaded_mib(flags),
        kv_element_bytes=kv_element_bytes(flags),
    )
