"""The start-up budget grows with the weights that a pod can hold, and with how slowly they come."""

from typing import Any

import pytest
from tests.unit.planning.builders import a_pool, a_resource, a_simulated_resource

from specfleet.api.resource import SpeculativeDeployment
from specfleet.engines.registry import ENGINES
from specfleet.planning.start_budget import start_seconds

H200 = {"nvidia.com/gpu.product": "NVIDIA-H200"}


def seconds(resource: SpeculativeDeployment) -> int:
    spec = resource.spec
    return start_seconds(ENGINES[spec.engine.type], spec, spec.pools[0].template)


def on_vllm(uri: str, *, gpus: int = 0, selector: Any = None, memory: str = "", **spec: Any) -> int:
    limits = {**({"nvidia.com/gpu": gpus} if gpus else {}), **({"memory": memory} if memory else {})}
    template = {"resources": {"limits": limits}, "nodeSelector": selector or {}}
    model = {"uri": uri, **spec.pop("model", {})}
    return seconds(a_resource(a_pool(template=template), model=model, engine={"type": "vllm"}, **spec))


@pytest.mark.fault("vllm-project/aibrix#772", "vllm-project/aibrix#1054")
@pytest.mark.parametrize(
    ("gpus", "minutes"),
    [
        (1, 15 + 20),  # 141 GiB at 125 MiB/s: 19.25 minutes
        (8, 15 + 155),  # 1128 GiB: 154.01 minutes
    ],
)
def test_all_that_the_devices_hold_can_be_read_in_time(gpus: int, minutes: int) -> None:
    assert on_vllm("file:///models/llama", gpus=gpus, selector=H200) == 60 * minutes


def test_a_model_on_a_claim_has_more_time_than_one_on_the_nodes_disk() -> None:
    disk = on_vllm("hf://org/model", gpus=1, selector=H200)

    assert disk == on_vllm("image://registry/model:1", gpus=1, selector=H200) == 60 * (15 + 20)
    # 141 GiB at 100 MiB/s: 24.06 minutes.
    assert on_vllm("pvc://weights/llama", gpus=1, selector=H200) == 60 * (15 + 25)
    cached = {"cacheClaim": "models", "revision": "0e9e39f"}
    assert on_vllm("hf://org/model", gpus=1, selector=H200, model=cached) == 60 * (15 + 25)
    head = {"method": "eagle3", "proposer": {"uri": "pvc://heads/one"}}
    assert on_vllm("file:///models/llama", gpus=1, selector=H200, speculation=head) == 60 * (15 + 25)


def test_without_gpus_the_weights_lie_within_the_memory_limit() -> None:
    # 6 GiB: 49 seconds.
    assert on_vllm("file:///models/smollm2", memory="6Gi") == 60 * 16


def test_what_the_pool_does_not_say_is_taken_for_a_gpu_of_80_gib() -> None:
    # 640 GiB: 87.4 minutes.
    assert on_vllm("file:///models/llama", gpus=8) == 60 * (15 + 88)


def test_an_engine_without_weights_reads_none() -> None:
    assert seconds(a_simulated_resource()) == 180
