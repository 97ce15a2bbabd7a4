"""One tensor as its file's header describes it."""

import math
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Shape", "Tensor"]

Shape = tuple[int, ...]

# Bits by the names that safetensors uses.
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64,
}  # fmt: skip
_CAST = ("F16", "BF16", "F32", "F64")


@dataclass(frozen=True, slots=True)
class Tensor:
    """``dtype`` as safetensors names it; ``shape`` [out, in] as torch stores weights."""

    dtype: str
    shape: Shape
    file: Path

    def bytes_as(self, element_bytes: float) -> float:
        """Its bytes once loaded; weights that are not quantised become ``element_bytes`` an element."""
        bits = 8 * element_bytes if self.dtype in _CAST else _BITS.get(self.dtype, 8)
        return math.prod(self.shape) * bits / 8
