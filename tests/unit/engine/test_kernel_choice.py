"""The kernel follows from what the processor says and from the type of the weights."""

from pathlib import Path

import pytest
import torch

from specfleet_engine.kernels.capability import Kernel, choose_kernel, cpu_flags

CPUINFO = """processor\t: 0
model name\t: Some Processor
flags\t\t: fpu sse avx2 fma amx_bf16 avx512_bf16
bogomips\t: 5200.00

processor\t: 1
flags\t\t: fpu sse
"""


@pytest.mark.parametrize(
    ("flags", "dtype", "kernel"),
    [
        pytest.param({"avx2", "avx512f", "amx_bf16"}, torch.bfloat16, Kernel.PACKED, id="amx"),
        pytest.param({"avx2", "avx512f", "avx512_bf16"}, torch.bfloat16, Kernel.PACKED, id="avx512-bf16"),
        pytest.param({"avx2", "fma"}, torch.bfloat16, Kernel.TORCH, id="no-native-products"),
        pytest.param({"avx2", "amx_bf16"}, torch.float32, Kernel.TORCH, id="float32"),
    ],
)
def test_native_bfloat16_products_are_used_only_where_the_processor_has_them(
    flags: set[str], dtype: torch.dtype, kernel: Kernel
) -> None:
    assert choose_kernel(frozenset(flags), dtype) is kernel


def test_the_flags_are_those_that_linux_names_for_the_first_processor(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(CPUINFO, encoding="utf-8")

    assert cpu_flags(cpuinfo) == {"fpu", "sse", "avx2", "fma", "amx_bf16", "avx512_bf16"}


def test_a_machine_that_does_not_say_has_no_flags(tmp_path: Path) -> None:
    assert cpu_flags(tmp_path / "absent") == frozenset()
