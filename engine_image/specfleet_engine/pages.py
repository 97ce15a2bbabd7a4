"""Memory in huge pages, for weights that every step reads from end to end, and for the KV cache.

In pages of 4 KiB a step of SmolLM2 crosses 65,000 page borders for its weights, and two more in each layer
for each block of the KV cache; at each the processor looks up where the next page lies, and its prefetcher
starts anew. Linux gives pages of 2 MiB only to who asks, and torch does not.
"""

import math
import mmap
from contextlib import suppress

import torch

__all__ = ["HugePages", "huge_zeros"]

_PAGE = 2 << 20
_CHUNK = 64 << 20  # of addresses; memory is taken as it is filled
_LINE = 64


class HugePages:
    """Places tensors one behind the other. Memory goes back when all tensors of its chunk are gone."""

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy a tensor here; the answer is contiguous and begins at a cache line."""
        if self._used + tensor.nbytes > len(self._chunk):
            self._chunk, self._used = _chunk(max(tensor.nbytes, _CHUNK)), 0
        own = self._chunk[self._used : self._used + tensor.nbytes]
        self._used += -(-tensor.nbytes // _LINE) * _LINE
        return own.view(tensor.dtype).view(tensor.shape).copy_(tensor)


def huge_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Give zeros in huge pages of their own, resident at once."""
    size = math.prod(shape) * dtype.itemsize
    return _chunk(size).zero_().view(dtype).view(shape)


def _chunk(size: int) -> torch.Tensor:
    memory = mmap.mmap(-1, size + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # A kernel without huge pages refuses; the memory is as good, only slower.
    with suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    found = torch.frombuffer(memory, dtype=torch.uint8)
    begin = -found.data_ptr() % _PAGE
    return found[begin : begin + size]
