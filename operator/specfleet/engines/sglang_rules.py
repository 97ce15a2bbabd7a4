"""What a stock SGLang cannot serve, by extra arguments: it would end at start, or serve something else.

Source: reference/engines.md section 3; sglang/srt/speculative/adaptive_spec_params.py in 0.5.23; the pull
request that is named.
"""

from collections.abc import Mapping
from types import MappingProxyType

from specfleet.api.resource import Spec
from specfleet.engines.extra_arguments import FlagRule, Given, given, has_weights, number

_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "--model": "--model-path",
        "--tensor-parallel-size": "--tp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--data-parallel-size": "--dp-size",
        "--attention-data-parallel-size": "--attn-dp-size",
        "--speculative-draft-model": "--speculative-draft-model-path",
    }
)

# With any of these SGLang drops its adaptive mode, with one line in its log.
_UNADAPTIVE = (
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
        ("--enable-lora", "--lora-paths"),
        "Lora",
        "with drafts SGLang serves adapters with ngram only (sgl-project/sglang#28395): write method "
        "ngram or none",
        lambda spec, value: spec.speculation.method not in ("ngram", "none"),
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
        "ngram drafts do not run with attention data parallelism: write another method",
        lambda spec, value: spec.speculation.method == "ngram",
    ),
)


def flags_of(spec: Spec) -> Given:
    """Read the user's extra arguments as SGLang would."""
    return given(spec.engine.extra_args, _SHORT)


def unadaptive(spec: Spec) -> str:
    """Name the flag with which SGLang has one depth for all batches; empty: there is none."""
    return next((flag for flag in flags_of(spec) if flag in _UNADAPTIVE), "")


def gpus(spec: Spec) -> int:
    """Count the devices of one pod; attention data parallelism shares those of tensor parallelism."""
    flags = flags_of(spec)
    replicas = 1 if "--enable-dp-attention" in flags else number(flags, "--dp-size")
    return (spec.engine.tensor_parallel_size or 1) * number(flags, "--pp-size") * replicas
