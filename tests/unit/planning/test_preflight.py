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


def test_what_stretches_positions_or_shrinks_the_cache_is_passed_on() -> None:
    stretched = {"name": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "value": "1"}

    sglang = checked(engine={"type": "sglang", "env": [stretched]})
    vllm = checked(engine={"type": "vllm", "extraArgs": ["--kv-cache-dtype=fp8"]})

    assert "--positions-stretched" in sglang["args"]
    assert "--positions-stretched" not in vllm["args"]
    assert value_of("--kv-element-bytes", vllm) == "1"


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
