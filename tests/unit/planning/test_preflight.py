"""The check of a pair before an engine of others loads it: where it runs, and what it is told."""

from typing import Any

import pytest
from tests.unit.planning.builders import a_pool, a_resource
from tests.unit.planning.test_model_sources import containers, pod_of, value_of

from specfleet.api.resource import PodSettings
from specfleet.planning.device_memory import device_memory_mib

PVC = {"uri": "pvc://weights/llama"}
HEAD = {"method": "eagle3", "depth": {"initial": 2, "max": 4}, "proposer": {"uri": "pvc://heads/eagle3"}}


def checked(*pools: Any, engine: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec = {"model": PVC, "speculation": HEAD, **spec}
    pod = pod_of(a_resource(*pools, engine=engine, **spec))
    return containers(pod)["preflight"]


def test_the_check_sees_the_same_folders_and_sizes_as_the_engine() -> None:
    engine = {
        "type": "vllm",
        "version": "0.32.0",
        "dtype": "float16",
        "quantization": "fp8",
        "tensorParallelSize": 2,
        "maxModelLen": 8192,
        "maxNumSeqs": 64,
    }

    container = checked(engine=engine)

    assert container["command"] == ["python", "-m", "specfleet_preflight"]
    assert container["image"] == "example.test/preflight:1"
    assert {flag: value_of(flag, container) for flag in container["args"] if flag.startswith("--")} == {
        "--model": "/models/llama",
        "--proposer": "/proposer/eagle3",
        "--method": "eagle3",
        "--engine": "vllm",
        "--engine-version": "0.32.0",
        "--max-model-len": "8192",
        "--max-num-seqs": "64",
        "--max-depth": "4",
        "--dtype": "float16",
        "--quantization": "fp8",
        "--tensor-parallel-size": "2",
    }
    assert {"name": "model", "mountPath": "/models", "readOnly": True} in container["volumeMounts"]
    assert {"name": "proposer", "mountPath": "/proposer", "readOnly": True} in container["volumeMounts"]
    # Weights are read by the engine alone, and so is the GPU.
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_a_fetched_pair_is_checked_after_both_have_arrived() -> None:
    resource = a_resource(
        engine={"type": "vllm"},
        model={"uri": "hf://org/model"},
        speculation={"method": "eagle3", "proposer": {"uri": "hf://org/head"}},
    )

    names = list(containers(pod_of(resource)))

    assert names[:3] == ["download-model", "download-proposer", "preflight"]


@pytest.mark.parametrize(
    ("engine", "model", "speculation"),
    [
        pytest.param({"type": "builtin"}, PVC, HEAD, id="builtin-checks-what-it-loads"),
        pytest.param({"type": "vllm"}, PVC, {"method": "ngram"}, id="nothing-to-compare"),
        pytest.param(
            {"type": "vllm"}, {"uri": "file:///models/llama"}, HEAD, id="files-of-the-engines-image"
        ),
    ],
)
def test_other_pods_have_no_check(
    engine: dict[str, Any], model: dict[str, Any], speculation: dict[str, Any]
) -> None:
    pod = pod_of(a_resource(engine=engine, model=model, speculation=speculation))

    assert "preflight" not in containers(pod)


def test_what_stretches_positions_is_passed_on() -> None:
    stretched = {"name": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "value": "1"}

    sglang = checked(engine={"type": "sglang", "env": [stretched]})
    vllm = checked(engine={"type": "vllm"})

    assert "--positions-stretched" in sglang["args"]
    assert "--positions-stretched" not in vllm["args"]


@pytest.mark.parametrize(
    ("engine", "gpus", "extra", "expected"),
    [
        ("vllm", 4, ["--pipeline-parallel-size=2"], {"--pipeline-parallel-size": "2"}),
        (
            "vllm",
            16,
            ["-pp", "4", "-pcp=2"],
            {"--pipeline-parallel-size": "4", "--expert-parallel-size": "4", "--context-parallel-size": "2"},
        ),
        ("vllm", 8, ["-dp=4", "--enable-expert-parallel"], {"--expert-parallel-size": "8"}),
        ("vllm", 2, ["-dcp=2"], {"--context-parallel-size": "2"}),
        ("vllm", 2, ["--cpu-offload-gb", "1.5"], {"--offloaded-mib": "1536"}),
        ("vllm", 2, ["--kv_cache_dtype=fp8"], {"--kv-element-bytes": "1"}),
        ("vllm", 2, ["--kv-cache-dtype", "nvfp4"], {"--kv-element-bytes": "0.375"}),
        ("vllm", 2, ["--kv-cache-dtype", "bfloat16"], {"--kv-element-bytes": "2"}),
        ("vllm", 2, ["--kv-cache-dtype", "auto"], {}),
        ("sglang", 2, ["--kv-cache-d=fp8_e5m2"], {"--kv-element-bytes": "1"}),
        ("sglang", 2, ["--dcp-size", "2"], {"--context-parallel-size": "2"}),
        ("sglang", 4, ["--dp-size=2"], {}),
        ("vllm", 2, ["--offload-group-size=8"], {"--memory-mib": None}),
    ],
)
def test_how_devices_share_the_model_is_passed_on(
    engine: str, gpus: int, extra: list[str], expected: dict[str, str | None]
) -> None:
    pool = a_pool(
        template={
            "resources": {"limits": {"nvidia.com/gpu": gpus, "memory": "64Gi"}},
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        }
    )

    container = checked(pool, engine={"type": engine, "tensorParallelSize": 2, "extraArgs": extra})

    usual = {"--tensor-parallel-size": "2", "--memory-mib": "81920"}
    told = {flag: value_of(flag, container) for flag in container["args"] if flag in MEMORY_FLAGS}
    assert told == {flag: value for flag, value in {**usual, **expected}.items() if value is not None}


MEMORY_FLAGS = (
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--expert-parallel-size",
    "--context-parallel-size",
    "--memory-mib",
    "--offloaded-mib",
    "--kv-element-bytes",
)


@pytest.mark.parametrize(
    ("version", "method", "depth"), [("0.32.0", "medusa", "2"), ("0.32.0", "eagle", "4")]
)
def test_the_depth_that_is_checked_is_the_deepest_that_the_engine_will_run(
    version: str, method: str, depth: str
) -> None:
    container = checked(engine={"type": "vllm", "version": version}, speculation={**HEAD, "method": method})

    assert value_of("--max-depth", container) == depth


def test_the_memory_of_the_pools_devices_is_passed_on() -> None:
    pool = a_pool(
        template={
            "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}},
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        }
    )

    assert value_of("--memory-mib", checked(pool, engine={"type": "vllm"})) == "81920"


GPU = {"limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}}


@pytest.mark.parametrize(
    ("resources", "selector", "mib"),
    [
        pytest.param(GPU, {"nvidia.com/gpu.memory": "46068"}, 46068, id="the-drivers-figure"),
        pytest.param(GPU, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, 40960, id="in-the-name"),
        pytest.param(GPU, {"nvidia.com/gpu.product": "NVIDIA-L4"}, 24576, id="by-the-data-sheet"),
        pytest.param(GPU, {"nvidia.com/gpu.product": "NVIDIA-H100-NVL"}, 96256, id="the-longest-name"),
        pytest.param(GPU, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, None, id="a-part"),
        pytest.param(GPU, {"nvidia.com/gpu.product": "NVIDIA-X1"}, None, id="not-on-the-list"),
        pytest.param(GPU, {}, None, id="any-node"),
        pytest.param({"limits": {"memory": "8Gi"}}, {}, 8192, id="a-cpus-memory-limit"),
        pytest.param({"limits": {"cpu": "2"}}, {}, None, id="no-limit"),
    ],
)
def test_the_memory_of_a_device_is_what_the_pool_says_of_it(
    resources: dict[str, Any], selector: dict[str, str], mib: int | None
) -> None:
    template = PodSettings.model_validate({"resources": resources, "nodeSelector": selector})

    assert device_memory_mib(template) == mib
