"""Priors per GPU: design/tuning.md, section 5."""

import pytest

from specfleet.tuning.hardware import knee_tokens


def test_the_knee_of_an_h100_is_that_of_the_worked_example() -> None:
    # m = 14.4 ms and c = 59.5 us: about 240 tokens.
    assert knee_tokens("NVIDIA-H100-80GB-HBM3") == pytest.approx(14.4e-3 / 59.5e-6, rel=0.02)


@pytest.mark.parametrize(
    ("product", "flops", "bandwidth"),
    [
        pytest.param("NVIDIA-H200", 989.5e12, 4.8e12, id="H200"),
        pytest.param("NVIDIA-H100-PCIe", 756e12, 2.0e12, id="a-longer-name-wins"),
        pytest.param("NVIDIA-L4", 121e12, 0.3e12, id="L4-is-not-L40S"),
        pytest.param("NVIDIA-L40S", 362e12, 0.864e12, id="L40S"),
    ],
)
def test_a_device_is_found_by_its_node_label(product: str, flops: float, bandwidth: float) -> None:
    assert knee_tokens(product) == pytest.approx(1.36 * 0.6 * flops / bandwidth)


@pytest.mark.fault("vllm#44336")
@pytest.mark.parametrize("product", ["", "NVIDIA-GeForce-RTX-9999", "AMD-Instinct"])
def test_an_unknown_device_has_no_prior(product: str) -> None:
    assert knee_tokens(product) is None
