"""The KV cache: a pool of blocks of tokens, and who holds which.

`BlockPool` only counts; `KVCache` has the tensors. A sequence names its blocks in order, so token p of it
lies in slot ``blocks[p // BLOCK_SIZE] * BLOCK_SIZE + p % BLOCK_SIZE``.
"""

import torch

__all__ = ["BLOCK_SIZE", "BlockPool", "KVCache", "blocks_for"]

BLOCK_SIZE = 16


def blocks_for(tokens: int) -> int:
    """How many blocks hold ``tokens`` tokens."""
    return -(-tokens // BLOCK_SIZE)


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
