"""What a stock vLLM cannot serve, by extra arguments and variables: it would start, and fail later.

Source: reference/engines.md section 2; vllm/v1/structured_output in 0.32; the issues that are named.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from specfleet.api.resource import Spec
from specfleet.engines.engine import Refusal
from specfleet.engines.extra_arguments import (
    FlagRule,
    Given,
    given,
    has_weights,
    names_of,
    number,
    speculates,
)
from specfleet.engines.placement import PLACING_FLAGS, Placement, kv_element_bytes, offloaded_mib

_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "-tp": "--tensor-parallel-size",
        "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size",
        "-pcp": "--prefill-context-parallel-size",
        "-dcp": "--decode-context-parallel-size",
        "-sc": "--speculative-config",
        "-q": "--quantization",
    }
)
# Connectors that lay KV aside for the same pod; all others may hand it from a prefill to a decode pod.
_ASIDE = ("OffloadingConnector", "SimpleCPUOffloadConnector")
_INSTEAD = "is written by specfleet from speculation: remove it"

RULES = (
    FlagRule(
        # The last is of older releases, where vLLM switched drafts off at a load (vllm-project/vllm#41821).
        ("--spec-method", "--spec-model", "--spec-tokens", "--speculative-disable-by-batch-size"),
        "OwnedFlag",
        _INSTEAD,
    ),
    FlagRule(
        ("--async-scheduling", "--no-async-scheduling"),
        "OwnedFlag",
        "goes with the scheduler, which specfleet chooses by method: remove it",
    ),
    FlagRule(
        ("--config",), "OwnedFlag", "a file could set what specfleet sets: write its flags into extraArgs"
    ),
    FlagRule(
        ("--disable-log-stats",), "MetricsOff", "switches off /metrics, which specfleet tunes by: remove it"
    ),
    FlagRule(
        ("--api-key",),
        "SecretInArguments",
        "a key in arguments can be read by everybody: write env VLLM_API_KEY with valueFrom.secretKeyRef",
    ),
    FlagRule(
        ("--ssl-keyfile", "--ssl-certfile", "--uds"),
        "NotReachable",
        "probes, Services and Prometheus speak plain HTTP with the pod: end TLS before it",
    ),
    FlagRule(
        ("--structured-outputs-config.backend",),
        "StructuredOutputs",
        "lm-format-enforcer takes no drafted tokens: write xgrammar, guidance or outlines, or method none",
        lambda spec, value: speculates(spec) and value == "lm-format-enforcer",
    ),
    FlagRule(
        ("--enable-lora",),
        "Lora",
        "with drafts vLLM runs adapters tested with eagle3 only; with ngram it ended under load "
        "(vllm-project/vllm#20284): write method eagle3 or none",
        lambda spec, value: spec.speculation.method not in ("eagle3", "none"),
    ),
    FlagRule(
        ("--pipeline-parallel-size",),
        "PipelineParallel",
        "with this method vLLM takes its older model runner, which has a drafter in the last stage only and "
        "asks for it in each (vllm-project/vllm#30436): write engine.tensorParallelSize instead, or another "
        "method",
        lambda spec, value: spec.speculation.method in ("medusa", "suffix") and value not in ("", "1"),
    ),
    FlagRule(
        ("--kv-transfer-config.kv_connector",),
        "Disaggregation",
        "the proposer's KV does not go from prefill to decode (vllm-project/vllm#48221): write method ngram "
        "or none",
        lambda spec, value: has_weights(spec) and value not in _ASIDE,
    ),
)
_READ = (
    PLACING_FLAGS
    | names_of(RULES)
    | {
        "--decode-context-parallel-size",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
        "--data-parallel-size",
        "--data-parallel-size-local",
    }
)


def flags_of(spec: Spec) -> Given:
    """Read the user's extra arguments as vLLM would."""
    return given(spec.engine.extra_args, _SHORT, _READ)


def data_parallel_size(spec: Spec) -> int:
    """Count engine cores that share one pod; beyond 1 vLLM drops a schedule, with one line in its log."""
    return number(flags_of(spec), "--data-parallel-size")


def gpus(spec: Spec) -> int:
    """Count the devices of one pod."""
    flags = flags_of(spec)
    split = number(flags, "--pipeline-parallel-size") * number(flags, "--prefill-context-parallel-size")
    return (spec.engine.tensor_parallel_size or 1) * split * data_parallel_size(spec)


def placement(spec: Spec) -> Placement:
    """Say how the devices of one pod share the model; experts are shared by replicas too."""
    flags, tensor = flags_of(spec), spec.engine.tensor_parallel_size or 1
    prefill = number(flags, "--prefill-context-parallel-size")
    return Placement(
        tensor=tensor,
        stages=number(flags, "--pipeline-parallel-size"),
        experts=tensor * prefill * data_parallel_size(spec),
        contexts=prefill * number(flags, "--decode-context-parallel-size"),
        offloaded_mib=offloaded_mib(flags),
        kv_element_bytes=kv_element_bytes(flags),
    )


def variable_refusals(spec: Spec, *, live: bool) -> Iterator[Refusal]:
    """Refuse variables that would open the pod, or hide the plug-in of a ``live`` one."""
    names = {variable.name for variable in spec.engine.env}
    if "VLLM_SERVER_DEV_MODE" in names:
        yield Refusal(
            "UnsafeVariable",
            "engine.env: VLLM_SERVER_DEV_MODE opens routes that stop and reconfigure the engine without a "
            "key: remove it",
        )
    if live and "PYTHONPATH" in names:
        yield Refusal(
            "OwnedVariable",
            "engine.env: PYTHONPATH leads vLLM to the plug-in by which the depth changes: bring packages in "
            "the image",
        )
