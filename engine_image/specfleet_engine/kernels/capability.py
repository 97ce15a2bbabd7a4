"""Which kernel a processor deserves: decided once at start, from what the processor says it can do."""

from enum import StrEnum
from pathlib import Path

import torch

__all__ = ["Kernel", "choose_kernel", "cpu_flags", "multiplies_bfloat16"]

# Native products of bfloat16. Without them torch converts at each call: 0.9 GFLOP/s against 114 in float32
# on a processor with AVX2 only (reference: engine-building.md, section 8).
_NATIVE_BFLOAT16 = frozenset({"amx_bf16", "avx512_bf16"})


class Kernel(StrEnum):
    """How linear layers are computed. The value is what the log says."""

    TORCH = "torch"
    PACKED = "onednn-packed"


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Instruction sets of the first processor, as Linux names them; none where it does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def multiplies_bfloat16(flags: frozenset[str]) -> bool:
    """Say whether a processor with ``flags`` has products of bfloat16."""
    return bool(flags & _NATIVE_BFLOAT16)


def choose_kernel(flags: frozenset[str], dtype: torch.dtype) -> Kernel:
    """Give the fastest kernel for weights of ``dtype`` that the processor can run."""
    if dtype is torch.bfloat16 and multiplies_bfloat16(flags):
        return Kernel.PACKED
    return Kernel.TORCH
