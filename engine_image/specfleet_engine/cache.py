"""The KV cache: a pool of blocks of tokens, and who holds which.

`BlockPool` only counts; `KVCache` has the tensors. A sequence names its blocks in order, so token p of it
lies in slot ``blocks[p // BLOCK_SIZE] * BLOCK_SIZE + p % BLOCK_SIZE``.
"""

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["BLOCK_SIZE", "BlockPool", "FeatureCache", "KVCache", "blocks_for", "slots_for"]

BLOCK_SIZE = 16


def blocks_for(tokens: int) -> int:
    """How many blocks hold ``tokens`` tokens."""
    return -(-tokens // BLOCK_SIZE)


def slots_for(blocks: list[int], start: int, end: int) -> npt.NDArray[np.int64]:
    """Give the slots of positions ``start`` to ``end`` of a sequence with these blocks."""
    places = np.arange(start, end)
    slots: npt.NDArray[np.int64] = np.array(blocks, dtype=np.int64)[places // BLOCK_SIZE] * BLOCK_SIZE
    return slots + places % BLOCK_SIZE


class BlockPool:
    """Free and held blocks. Every block is in exactly one place."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def usage(self) -> float:
        """Held share of the blocks, 0..1."""
        return 1.0 - self.free / self.total

    def reach(self, blocks: list[int]) -> int:
        """How many tokens a sequence with ``blocks`` could hold if it took every free block."""
        return (len(blocks) + self.free) * BLOCK_SIZE

    def grow(self, blocks: list[int], tokens: int) -> bool:
        """Extend ``blocks`` to hold ``tokens`` tokens. False, and nothing taken, if too few are free."""
        missing = blocks_for(tokens) - len(blocks)
        if missing > self.free:
            return False
        for _ in range(missing):
            blocks.append(self._free.pop())
        return True

    def release(self, blocks: list[int]) -> None:
        """Give all of ``blocks`` back and empty the list."""
        self._free.extend(reversed(blocks))
        blocks.clear()


class KVCache:
    """Keys and values of all layers, [layers, blocks, BLOCK_SIZE, kv heads, head size] each."""

    def __init__(
        self,
        layers: int,
        blocks: int,
        kv_heads: int,
        head_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (layers, blocks, BLOCK_SIZE, kv_heads, head_size)
        # Zeros, not empty: padded places are read and then masked, and NaN times 0 is NaN.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.tokens = blocks * BLOCK_SIZE

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put the keys and values [rows, kv heads, head size] of one layer into ``slots`` [rows]."""
        self.keys[layer].flatten(0, 1).index_copy_(0, slots, keys)
        self.values[layer].flatten(0, 1).index_copy_(0, slots, values)

    def read(self, layer: int, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gather the blocks of ``table`` [sequences, blocks] as [sequences, kv heads, tokens, head size]."""
        flat = table.flatten()
        shape = (table.shape[0], table.shape[1] * BLOCK_SIZE, *self.keys.shape[-2:])
        keys = self.keys[layer].index_select(0, flat).view(shape)
        values = self.values[layer].index_select(0, flat).view(shape)
        return keys.transpose(1, 2), values.transpose(1, 2)


class FeatureCache:
    """States of the target [slots, width], in the slots of the KV that they belong to.

    A rejected draft leaves its state behind as it leaves its KV: the next pass overwrites both.
    """

    def __init__(self, blocks: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self._states = torch.zeros(blocks * BLOCK_SIZE, width, dtype=dtype, device=device)

    def write(self, slots: torch.Tensor, begin: int, states: torch.Tensor) -> None:
        """Put ``states`` [rows, n] into columns ``begin`` to ``begin`` + n of ``slots`` [rows]."""
        self._states[:, begin : begin + states.shape[1]].index_copy_(0, slots, states)

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        """Copy the states of ``slots`` [rows] as [rows, width]."""
        return self._states.index_select(0, slots)
