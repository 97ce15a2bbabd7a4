"""The command line, variables and refusals of a stock vLLM. Names: reference/engines.md, section 2."""

import json
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.engines.builders import a_spec, arguments, flags, messages, reasons

from specfleet.api.owned import VLLM_FLAGS
from specfleet.api.resource import Spec
from specfleet.engines.registry import ENGINES

VLLM = ENGINES["vllm"]
LIVE = ("draftModel", "eagle", "eagle3", "mtp", "ngram")
FIXED = ("medusa", "suffix")


def speculative_config(spec: Spec) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(flags(spec)["--speculative-config"])
    return found


def test_it_is_started_by_its_module_which_every_build_has() -> None:
    # The `vllm` command fails in builds whose distribution has another name (reference, section 5).
    assert VLLM.runtime(a_spec()).command == ("python3", "-m", "vllm.entrypoints.openai.api_server")


@pytest.mark.parametrize(
    ("fields", "flag", "value"),
    [
        pytest.param({}, "--model", "/models/llama", id="model"),
        pytest.param({}, "--served-model-name", "chat", id="served-name"),
        pytest.param({"dtype": "float16"}, "--dtype", "float16", id="dtype"),
        pytest.param({"quantization": "fp8"}, "--quantization", "fp8", id="quantization"),
        pytest.param({"maxModelLen": 4096}, "--max-model-len", "4096", id="max-model-len"),
        pytest.param({"maxNumSeqs": 64}, "--max-num-seqs", "64", id="max-num-seqs"),
        pytest.param({"tensorParallelSize": 4}, "--tensor-parallel-size", "4", id="tensor-parallel-size"),
        pytest.param({"kvCacheMib": 2}, "--kv-cache-memory-bytes", "2097152", id="kv-cache"),
        pytest.param({}, "--port", "8000", id="port"),
        pytest.param({}, "--shutdown-timeout", "120", id="drain"),
    ],
)
def test_each_field_of_the_engine_becomes_a_flag(fields: dict[str, Any], flag: str, value: str) -> None:
    assert flags(a_spec(**fields))[flag] == value


@pytest.mark.parametrize("flag", ["--quantization", "--kv-cache-memory-bytes"])
def test_what_is_left_out_is_left_to_vllm(flag: str) -> None:
    assert flag not in flags(a_spec())


def test_every_flag_that_is_written_is_owned_and_every_owned_flag_is_written() -> None:
    full = a_spec(quantization="fp8", kvCacheMib=1024)

    assert set(flags(full)) == set(VLLM_FLAGS)


def test_equal_specs_give_equal_lines() -> None:
    assert arguments(a_spec()) == arguments(a_spec())


# The method is always written out: vLLM would guess it from the path of the weights.
@pytest.mark.fault("kaito-project/kaito#2286")
@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("draftModel", "draft_model"),
        ("eagle", "eagle"),
        ("eagle3", "eagle3"),
        ("medusa", "medusa"),
        ("mtp", "mtp"),
        ("ngram", "ngram"),
        ("suffix", "suffix"),
    ],
)
def test_each_method_is_written_out_with_its_weights(method: str, name: str) -> None:
    config = speculative_config(a_spec(method=method))

    assert config["method"] == name
    assert config.get("model") == (
        "/proposer/head" if method in ("draftModel", "eagle", "eagle3", "medusa") else None
    )


def test_without_speculation_vllm_gets_no_speculative_flag_and_no_plug_in() -> None:
    spec = a_spec(method="none")

    assert not {"--speculative-config", "--scheduler-cls"} & set(flags(spec))
    assert VLLM.runtime(spec).plugin is None
    assert [port.name for port in VLLM.runtime(spec).ports] == ["http"]


def test_the_ngram_block_sets_both_ends_of_the_match() -> None:
    config = speculative_config(a_spec(method="ngram", speculation={"ngram": {"minMatch": 3, "maxMatch": 6}}))

    # One alone would set the other too (reference, 2.2).
    assert (config["prompt_lookup_min"], config["prompt_lookup_max"]) == (3, 6)


def by_batch_size(rows: list[list[int]], largest: int) -> list[int]:
    """What vLLM looks up for 1, 2, ... scheduled requests (reference, 2.3): gaps and tail carry on."""
    depths: list[int] = []
    for batch in range(1, largest + 1):
        (*_, row) = [row for row in rows if row[0] <= batch]
        depths.append(row[2])
    return depths


@pytest.mark.fault("vllm-project/vllm-ascend#12686")
@pytest.mark.parametrize("initial", [0, 2, 5])
@pytest.mark.parametrize("batch", [6, 7, 16, 256])
def test_the_start_up_schedule_names_every_depth_that_may_ever_be_pushed(initial: int, batch: int) -> None:
    spec = a_spec(maxNumSeqs=batch, speculation={"depth": {"initial": initial, "max": 5}})

    config = speculative_config(spec)
    rows = config["num_speculative_tokens_per_batch_size"]

    assert config["num_speculative_tokens"] == 5
    assert set(by_batch_size(rows, batch)) == {0, 1, 2, 3, 4, 5}
    assert rows[0][0] == 1
    assert all(first <= last < following[0] for (first, last, _), following in pairwise(rows))
    # Until the plug-in takes over the initial depth holds, but for the fullest batches.
    assert by_batch_size(rows, batch)[: batch - 5] == [initial] * (batch - 5)


def test_fewer_sequences_than_depths_are_refused_since_vllm_prepares_one_depth_a_batch_size() -> None:
    (reason,) = reasons(a_spec(maxNumSeqs=5))

    assert reason == "TooFewSequences"
    assert "raise it to 6" in messages(a_spec(maxNumSeqs=5))
    assert reasons(a_spec(maxNumSeqs=6)) == []


@pytest.mark.parametrize("method", LIVE)
def test_a_live_method_gets_the_scheduler_the_plug_in_the_file_and_a_second_port(method: str) -> None:
    spec = a_spec(method=method)
    runtime = VLLM.runtime(spec)
    variables = dict(runtime.environment)

    scheduler = "SpecfleetScheduler" if method == "ngram" else "SpecfleetAsyncScheduler"
    assert flags(spec)["--scheduler-cls"] == f"specfleet_vllm.scheduler.{scheduler}"
    assert VLLM.actuation(spec).actuator == "live"
    assert runtime.plugin is not None
    assert variables["PYTHONPATH"] == runtime.plugin.path
    assert variables["SPECFLEET_SCHEDULE_FILE"] == "/etc/specfleet/schedule/schedule.json"
    assert variables["SPECFLEET_METRICS_PORT"] == "9404"
    assert [(port.name, port.number) for port in runtime.ports] == [("http", 8000), ("specfleet", 9404)]


@pytest.mark.parametrize("method", FIXED)
def test_a_method_that_asserts_its_start_up_depth_gets_that_depth_and_no_schedule(method: str) -> None:
    spec = a_spec(method=method, speculation={"depth": {"initial": 3, "max": 5}})

    config = speculative_config(spec)

    assert config["num_speculative_tokens"] == 3
    assert "num_speculative_tokens_per_batch_size" not in config
    assert "--scheduler-cls" not in flags(spec)
    assert VLLM.runtime(spec).plugin is None


@pytest.mark.fault("vllm#48494")
@pytest.mark.parametrize(
    "argument", [["--data-parallel-size", "2"], ["--data_parallel_size=2"], ["-dp", "2"]]
)
def test_with_data_parallelism_live_tuning_is_refused_with_the_reason(argument: list[str]) -> None:
    spec = a_spec(extraArgs=argument, tuning={"mode": "Enforce"})

    assert reasons(spec) == ["DepthIsFixed"]
    assert "drops the schedule with --data-parallel-size above 1" in messages(spec)


def test_with_data_parallelism_vllm_runs_the_initial_depth_and_is_told_so() -> None:
    spec = a_spec(extraArgs=["--data-parallel-size=2"])

    assert reasons(spec) == []
    assert speculative_config(spec)["num_speculative_tokens"] == 2
    assert VLLM.actuation(spec).actuator == "fixed"


def test_a_data_parallel_size_of_one_changes_nothing() -> None:
    assert VLLM.actuation(a_spec(extraArgs=["--data-parallel-size=1"])).actuator == "live"


@pytest.mark.parametrize("method", FIXED)
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"tuning": {"mode": "Enforce"}}, id="enforce"),
        pytest.param({"pool": {"tuning": {"mode": "Enforce"}}}, id="enforce-in-a-pool"),
        pytest.param({"tuning": {"schedule": [{"depth": 2}]}}, id="pin"),
        pytest.param({"speculation": {"depth": {"initial": 0, "max": 5}}}, id="no-depth"),
    ],
)
def test_where_the_depth_is_fixed_nothing_that_would_change_it_is_accepted(
    method: str, edit: dict[str, Any]
) -> None:
    assert reasons(a_spec(method=method, **edit)) == ["DepthIsFixed"]


@pytest.mark.parametrize("mode", ["Observe", "Recommend"])
def test_where_the_depth_is_fixed_it_may_be_watched(mode: str) -> None:
    assert reasons(a_spec(method="suffix", tuning={"mode": mode})) == []


@pytest.mark.fault(
    "kserve/kserve#5370",
    "kserve/kserve#5687",
    "vllm#41821",
    "vllm#25112",
    "vllm#27969",
    "vllm#11484",
    "vllm#48221",
    "vllm#52362",
)
@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (["--max-model=64"], "OwnedFlag"),
        (["--scheduler_cls=x.Y"], "OwnedFlag"),
        (["--speculative-config.num_speculative_tokens=9"], "OwnedFlag"),
        (["-sc", "{}"], "OwnedFlag"),
        (["-tp=2"], "OwnedFlag"),
        (["--spec-tokens", "3"], "OwnedFlag"),
        (["--speculative-disable-by-batch-size=4"], "OwnedFlag"),
        (["--no-async-scheduling"], "OwnedFlag"),
        (["--config=all.yaml"], "OwnedFlag"),
        (["--disable-log-stats"], "MetricsOff"),
        (["--api-key", "hunter2"], "SecretInArguments"),
        (["--ssl-certfile=/tls/tls.crt"], "NotReachable"),
        (["--structured-outputs-config.backend=lm-format-enforcer"], "StructuredOutputs"),
        (["--structured-outputs-config", '{"backend": "lm-format-enforcer"}'], "StructuredOutputs"),
        (["--structured_outputs_config.backend", "lm-format-enforcer"], "StructuredOutputs"),
        (
            ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
            "Disaggregation",
        ),
        (["--kv-transfer-config.kv_connector=NixlConnector"], "Disaggregation"),
        (["--kv-tr.kv_connector=MultiConnector"], "Disaggregation"),
        (["--disable-log-st"], "MetricsOff"),
        (["--speculative-config.enable_adaptive_verification=true"], "OwnedFlag"),
    ],
)
def test_an_argument_that_would_fail_later_is_refused_now(extra: list[str], reason: str) -> None:
    spec = a_spec()
    spec = spec.model_copy(update={"engine": spec.engine.model_copy(update={"extra_args": tuple(extra)})})

    assert reasons(spec) == [reason]
    assert "hunter2" not in messages(spec)


@pytest.mark.fault("vllm#30436")
@pytest.mark.parametrize(
    ("method", "stages", "expected"),
    [
        ("suffix", "2", ["PipelineParallel"]),
        ("medusa", "2", ["PipelineParallel"]),
        ("medusa", "1", []),
        ("eagle3", "2", []),
        ("none", "2", []),
    ],
)
def test_several_stages_are_refused_with_methods_of_the_runner_that_ends_with_them(
    method: str, stages: str, expected: list[str]
) -> None:
    assert reasons(a_spec(method=method, extraArgs=["-pp", stages])) == expected


@pytest.mark.fault("vllm#20284")
@pytest.mark.parametrize(
    ("method", "allowed"),
    [("eagle3", True), ("none", True), ("ngram", False), ("draftModel", False), ("medusa", False)],
)
def test_adapters_are_served_with_the_methods_that_vllm_tests_them_with(method: str, allowed: bool) -> None:
    assert reasons(a_spec(method=method, extraArgs=["--enable-lora"])) == ([] if allowed else ["Lora"])


@pytest.mark.fault("vllm#48221")
@pytest.mark.parametrize("method", ["ngram", "none"])
def test_prefill_and_decode_may_be_apart_where_no_proposer_has_a_cache(method: str) -> None:
    connector = "--kv-transfer-config.kv_connector=NixlConnector"

    assert reasons(a_spec(method=method, extraArgs=[connector])) == []


def test_a_connector_that_lays_cache_aside_for_the_same_pod_takes_nothing_apart() -> None:
    connector = '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}'

    assert reasons(a_spec(method="eagle3", extraArgs=["--kv-transfer-config", connector])) == []


@pytest.mark.fault("vllm#27969", "vllm#11484")
def test_structured_output_by_other_backends_is_served() -> None:
    assert (
        reasons(a_spec(extraArgs=["--structured-outputs-config.backend=xgrammar", "--enforce-eager"])) == []
    )


@pytest.mark.parametrize(
    ("name", "method", "expected"),
    [
        ("PYTHONPATH", "eagle3", ["OwnedVariable"]),
        ("PYTHONPATH", "none", []),
        ("VLLM_SERVER_DEV_MODE", "none", ["UnsafeVariable"]),
        ("VLLM_USE_V2_MODEL_RUNNER", "eagle3", []),
    ],
)
def test_variables_that_break_or_open_the_pod_are_refused(
    name: str, method: str, expected: list[str]
) -> None:
    assert reasons(a_spec(method=method, env=[{"name": name, "value": "1"}])) == expected


@pytest.mark.fault("vllm#19776")
def test_histograms_of_tokens_begin_at_half_a_millisecond() -> None:
    bounds = json.loads(flags(a_spec())["--custom-histogram-buckets"])["inter_token_latency"]

    assert bounds[0] == 0.0005
    assert bounds == sorted(set(bounds))
    # Nothing that vLLM's own bounds, .01 ... 80, can tell apart is lost.
    assert {0.01, 0.05, 0.1, 1.0, 10.0, 80.0} <= set(bounds)


@pytest.mark.fault("vllm#37982")
@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({}, 1),
        ({"tensorParallelSize": 4}, 4),
        ({"tensorParallelSize": 2, "extraArgs": ["--pipeline-parallel-size", "2"]}, 4),
        ({"tensorParallelSize": 2, "extraArgs": ["-dp=2"]}, 4),
        ({"tensorParallelSize": 2, "extraArgs": ["--pipeline-p", "2"]}, 4),
        ({"tensorParallelSize": 2, "extraArgs": ["--data_parallel_size=2", "--data-parallel-size-l=1"]}, 4),
        ({"tensorParallelSize": 2, "extraArgs": ["-pcp", "2"]}, 4),
    ],
)
def test_devices_are_counted_over_all_ways_to_share_them_and_shared_memory_grows(
    fields: dict[str, Any], gpus: int
) -> None:
    spec = a_spec(**fields)

    assert VLLM.devices(spec) == gpus
    # vLLM's own manifest takes 2 GiB for one GPU (reference, 2.5).
    assert VLLM.runtime(spec).shared_memory_mib == 1024 + 1024 * gpus


def test_an_idle_connection_outlives_that_of_load_balancers() -> None:
    """60 s is what nginx and the load balancers of clouds keep; with 5 s one request of a demo failed."""
    assert int(dict(VLLM.runtime(a_spec()).environment)["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]) > 60


def test_the_caches_of_a_user_without_a_home_lie_on_the_scratch_volume() -> None:
    variables = dict(VLLM.runtime(a_spec()).environment)

    assert variables["HOME"] == "/tmp"
    # torch asks for the user's name, which the image's table does not have.
    assert variables["USER"]
    assert all(
        variables[name].startswith("/tmp/")
        for name in ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")
    )
