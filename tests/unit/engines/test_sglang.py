"""The command line, table and refusals of a stock SGLang. Names: reference/engines.md, section 3."""

import json
from typing import Any

import pytest
from tests.unit.engines.builders import a_spec, flags, messages, reasons

from specfleet.api.owned import SGLANG_FLAGS
from specfleet.api.schedule import Row, Table, flat
from specfleet.engines.engine import ReadsTable
from specfleet.engines.registry import ENGINES

SGLANG = ENGINES["sglang"]
ROLLED = ("eagle", "eagle3")
FIXED = ("draftModel", "mtp", "ngram")


def table_of(table: Table, **fields: Any) -> dict[str, Any]:
    assert isinstance(SGLANG, ReadsTable)
    found: dict[str, Any] = json.loads(SGLANG.table_text(a_spec("sglang", **fields), table))
    return found


def steps_for(batch: int, written: dict[str, Any]) -> int:
    """What SGLang looks up: the row with the largest start that is not above the batch."""
    start = max((int(key) for key in written if int(key) <= batch), default=min(map(int, written)))
    (only,) = written[str(start)]["candidate_steps"]
    return int(only)


@pytest.mark.parametrize(
    ("fields", "flag", "value"),
    [
        pytest.param({}, "--model-path", "/models/llama", id="model"),
        pytest.param({}, "--served-model-name", "chat", id="served-name"),
        pytest.param({"dtype": "float16"}, "--dtype", "float16", id="dtype"),
        pytest.param({"quantization": "fp8"}, "--quantization", "fp8", id="quantization"),
        pytest.param({"maxModelLen": 4096}, "--context-length", "4096", id="max-model-len"),
        pytest.param({"maxNumSeqs": 64}, "--max-running-requests", "64", id="max-num-seqs"),
        pytest.param({"tensorParallelSize": 4}, "--tp-size", "4", id="tensor-parallel-size"),
        pytest.param({}, "--port", "8000", id="port"),
        # Off by default, and refreshed every 40 steps only (reference, 3.3).
        pytest.param({}, "--enable-metrics", "", id="metrics"),
        pytest.param({}, "--decode-log-interval", "10", id="fresh-gauges"),
    ],
)
def test_each_field_of_the_engine_becomes_a_flag(fields: dict[str, Any], flag: str, value: str) -> None:
    assert flags(a_spec("sglang", **fields))[flag] == value


def test_every_flag_that_is_written_is_owned_and_every_owned_flag_is_written() -> None:
    written = {
        flag for method in (*ROLLED, *FIXED) for flag in flags(a_spec("sglang", method, quantization="fp8"))
    }

    assert written == set(SGLANG_FLAGS)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("draftModel", "STANDALONE"),
        ("eagle", "EAGLE"),
        ("eagle3", "EAGLE3"),
        ("mtp", "NEXTN"),
        ("ngram", "NGRAM"),
    ],
)
def test_each_method_has_sglangs_name_and_its_weights(method: str, name: str) -> None:
    written = flags(a_spec("sglang", method))

    assert written["--speculative-algorithm"] == name
    weights = "/proposer/head" if method in ("draftModel", "eagle", "eagle3") else None
    assert written.get("--speculative-draft-model-path") == weights


def test_without_speculation_no_speculative_flag_is_written() -> None:
    assert not [flag for flag in flags(a_spec("sglang", "none")) if "speculative" in flag]


@pytest.mark.fault("vllm#16035")
@pytest.mark.parametrize("method", FIXED)
def test_a_method_of_one_depth_gets_the_initial_one_and_a_token_more(method: str) -> None:
    written = flags(a_spec("sglang", method, speculation={"depth": {"initial": 3, "max": 5}}))

    # SGLang counts the current token too.
    assert written["--speculative-num-draft-tokens"] == "4"
    assert "--speculative-adaptive" not in written
    if method == "ngram":
        # A tree of ten branches would spread the drafts: depth would mean nothing.
        assert written["--speculative-ngram-max-bfs-breadth"] == "1"
    else:
        assert (written["--speculative-num-steps"], written["--speculative-eagle-topk"]) == ("3", "1")


@pytest.mark.parametrize("method", ROLLED)
def test_a_method_with_an_adaptive_mode_is_sized_for_the_deepest_and_reads_its_table(method: str) -> None:
    written = flags(a_spec("sglang", method, speculation={"depth": {"initial": 2, "max": 5}}))

    assert SGLANG.actuation(a_spec("sglang", method)).actuator == "rollout"
    assert written["--speculative-num-steps"] == "5"
    assert written["--speculative-num-draft-tokens"] == "6"
    # The only top-k that the adaptive mode takes.
    assert written["--speculative-eagle-topk"] == "1"
    assert written["--speculative-adaptive-config"] == "/etc/specfleet/schedule/sglang-adaptive.json"


@pytest.mark.fault("sglang#28045")
def test_a_table_becomes_one_candidate_a_row_and_no_threshold() -> None:
    written = table_of((Row(8, 5), Row(12, 2), Row(None, 0)))

    assert [steps_for(batch, written) for batch in (1, 8, 9, 12, 13, 16)] == [5, 5, 2, 2, 0, 0]
    assert {key for row in written.values() for key in row} == {"candidate_steps"}


@pytest.mark.parametrize("table", [flat(0), flat(2), (Row(100, 3), Row(None, 1))])
def test_every_table_has_the_start_up_depth_as_a_candidate_that_no_batch_reaches(table: Table) -> None:
    written = table_of(table, maxNumSeqs=16, speculation={"depth": {"initial": 2, "max": 5}})

    # SGLang ends at start if its steps are no candidate, and sizes its buffers by the deepest.
    assert max(row["candidate_steps"][0] for row in written.values()) == 5
    assert {steps_for(batch, written) for batch in range(1, 17)} == {table[0].depth}


@pytest.mark.parametrize(
    "flag",
    ["--enable-dp-attention", "--enable-two-batch-overlap", "--enable-pdmux", "--enable_multi_layer_eagle"],
)
def test_where_sglang_drops_its_adaptive_mode_the_depth_is_fixed_and_said_to_be(flag: str) -> None:
    spec = a_spec("sglang", extraArgs=[flag], tuning={"mode": "Enforce"})

    assert SGLANG.actuation(spec).actuator == "fixed"
    assert "--speculative-adaptive" not in flags(spec)
    assert reasons(spec) == ["DepthIsFixed"]


@pytest.mark.parametrize("method", ROLLED)
def test_tuning_and_pins_are_taken_where_pods_can_be_rolled(method: str) -> None:
    pinned = {"mode": "Enforce", "schedule": [{"maxRequests": 4, "depth": 3}, {"depth": 0}]}

    assert reasons(a_spec("sglang", method, tuning=pinned)) == []


@pytest.mark.parametrize("method", FIXED)
@pytest.mark.parametrize("tuning", [{"mode": "Enforce"}, {"schedule": [{"depth": 2}]}])
def test_tuning_and_pins_are_refused_where_there_is_one_depth(method: str, tuning: dict[str, Any]) -> None:
    assert reasons(a_spec("sglang", method, tuning=tuning)) == ["DepthIsFixed"]


@pytest.mark.fault("kserve/kserve#5370", "kserve/kserve#5687", "sglang#30222")
@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (["--model", "x"], "OwnedFlag"),
        (["--tensor-parallel-size=2"], "OwnedFlag"),
        (["--speculative-eagle-top"], "OwnedFlag"),
        (["--config", "all.yaml"], "OwnedFlag"),
        (["--speculative-accept-threshold-single=0.5"], "NotExact"),
        (["--api-key", "hunter2"], "SecretInArguments"),
        (["--ssl-keyfile=/tls/tls.key"], "NotReachable"),
        (["--disaggregation-mode=prefill"], "Disaggregation"),
        (["--disaggregation-m", "decode"], "Disaggregation"),
    ],
)
def test_an_argument_that_would_fail_later_is_refused_now(extra: list[str], reason: str) -> None:
    spec = a_spec("sglang")
    spec = spec.model_copy(update={"engine": spec.engine.model_copy(update={"extra_args": tuple(extra)})})

    assert reasons(spec) == [reason]
    assert "hunter2" not in messages(spec)


@pytest.mark.parametrize(
    ("method", "extra"),
    [
        ("ngram", ["--lora-paths", "a=b"]),
        ("mtp", ["--lora-paths", "a=b"]),
        ("eagle3", ["--enable-lora"]),
        ("none", ["--pp-size=2"]),
        ("eagle3", ["--pp-size=1"]),
        ("none", ["--disaggregation-mode=decode"]),
        ("eagle3", ["--disaggregation-mode=null"]),
        ("eagle3", ["--api-key=$(API_KEY)"]),
        ("eagle3", ["--mem-fraction-static=0.8", "--log-level", "info"]),
    ],
)
def test_what_sglang_serves_is_left_alone(method: str, extra: list[str]) -> None:
    assert reasons(a_spec("sglang", method, extraArgs=extra)) == []


@pytest.mark.parametrize("method", ["draftModel", "ngram"])
def test_some_drafts_do_not_run_with_attention_data_parallelism(method: str) -> None:
    extra = ["--dp-size=2", "--enable-dp-attention"]

    assert reasons(a_spec("sglang", method, extraArgs=extra)) == ["AttentionDataParallel"]


@pytest.mark.fault("sglang#28395")
@pytest.mark.parametrize("flag", ["--enable-lora", "--lora-paths"])
def test_beside_adapters_eagle_heads_draft_at_one_depth_and_draft_models_not_at_all(flag: str) -> None:
    """sglang/srt/arg_groups/lora_hook.py in 0.5.23 raises at start for each of the two."""
    assert SGLANG.actuation(a_spec("sglang", "eagle3", extraArgs=[flag])).actuator == "fixed"
    assert "--speculative-adaptive" not in flags(a_spec("sglang", "eagle3", extraArgs=[flag]))
    assert reasons(a_spec("sglang", "draftModel", extraArgs=[flag])) == ["Lora"]


PP_SPEC = [{"name": "SGLANG_ENABLE_PP_SPEC", "value": "1"}]


@pytest.mark.parametrize("method", ["draftModel", "eagle", "eagle3", "mtp", "ngram"])
@pytest.mark.parametrize("flag", ["--pp-size=2", "--pipeline-parallel-size=2", "--pp-s=2"])
def test_drafts_of_a_model_in_stages_are_refused(method: str, flag: str) -> None:
    """sglang/srt/arg_groups/validation_hook.py in 0.5.23 asserts it at start."""
    spec = a_spec("sglang", method, extraArgs=[flag])

    assert reasons(spec) == ["PipelineParallel"]
    assert "raise engine.tensorParallelSize instead, or write method none" in messages(spec)


@pytest.mark.parametrize(
    ("method", "extra", "expected"),
    [
        ("eagle", [], []),
        ("mtp", [], []),
        ("eagle3", [], ["PipelineParallel"]),
        ("ngram", [], ["PipelineParallel"]),
        ("eagle", ["--enable-multi-layer-eagle"], ["PipelineParallel"]),
        ("eagle", ["--dp-size=2", "--enable-dp-attention"], ["PipelineParallel"]),
    ],
)
def test_where_sglang_drafts_over_stages_it_does_so_at_one_depth(
    method: str, extra: list[str], expected: list[str]
) -> None:
    spec = a_spec("sglang", method, extraArgs=["--pp-size=2", *extra], env=PP_SPEC)

    assert reasons(spec) == expected
    assert SGLANG.actuation(spec).actuator == "fixed"
    assert "--speculative-adaptive" not in flags(spec)


@pytest.mark.parametrize(
    ("extra", "gpus"),
    [
        ([], 4),
        (["--dp-size=2"], 8),
        (["--dp", "2"], 8),
        (["--dp-size=2", "--enable-dp-attention"], 4),
        (["--dp-size=2", "--enable-dp-attention", "--attn-dp-size=2"], 8),
        (["--pipeline-parallel-size", "2"], 8),
    ],
)
def test_devices_are_counted_over_all_ways_to_share_them(extra: list[str], gpus: int) -> None:
    spec = a_spec("sglang", "none", tensorParallelSize=4, extraArgs=extra)

    assert reasons(spec) == []
    assert SGLANG.devices(spec) == gpus


def test_an_idle_connection_outlives_that_of_load_balancers() -> None:
    """60 s is what nginx and the load balancers of clouds keep."""
    assert int(dict(SGLANG.runtime(a_spec("sglang")).environment)["SGLANG_TIMEOUT_KEEP_ALIVE"]) > 60
