"""The KV cache: a pool of blocks of tokens, and who holds which.

`BlockPool` only counts; `KVCache` and `FeatureCache` have the tensors. A sequence names its blocks in order,
so token p of it lies in slot ``blocks[p // BLOCK_SIZE] * BLOCK_SIZE + p % BLOCK_SIZE``.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from specfleet_engine.pages import huge_zeros

__all__ = ["BLOCK_SIZE", "BlockPool", "FeatureCache", "KVCache", "Window", "blocks_for", "slots_for"]

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
    """Who holds which block. Every block is held by some sequences, or free.

    A block that is full of verified tokens can be published under a key that stands for these tokens and
    all before them. Sequences that begin with the same tokens then hold it together. A published block
    keeps its content when it becomes free, until it is the one that was free for longest and no blank one
    is left.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._holders = [0] * total
        self._blank = list(range(total - 1, -1, -1))
        self._kept: dict[int, None] = {}  # free and published, the one to lose next first
        self._keys: dict[int, bytes] = {}
        self._published: dict[bytes, int] = {}

    @property
    def free(self) -> int:
        return len(self._blank) + len(self._kept)

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
            block = self._blank.pop() if self._blank else self._evict()
            self._holders[block] = 1
            blocks.append(block)
        return True

    def release(self, blocks: list[int]) -> None:
        """Give all of ``blocks`` back and empty the list."""
        # From the end: a prefix is of use to more texts than what follows it.
        for block in reversed(blocks):
            self._holders[block] -= 1
            if not self._holders[block]:
                self._put_back(block)
        blocks.clear()

    def publish(self, block: int, key: bytes) -> None:
        """Let others share a held block, which must not be written any more. A known key changes nothing."""
        if key not in self._published:
            self._published[key] = block
            self._keys[block] = key

    def cached(self, keys: list[bytes]) -> list[int]:
        """Give the blocks of the longest run of ``keys``, from the first on, that are published."""
        blocks = []
        for key in keys:
            block = self._published.get(key)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def count_free(self, blocks: list[int]) -> int:
        """How many of ``blocks`` nobody holds."""
        return sum(not self._holders[block] for block in blocks)

    def share(self, blocks: list[int], published: list[int]) -> None:
        """Hold the ``published`` blocks too, as the next ones of ``blocks``."""
        for block in published:
            self._kept.pop(block, None)
            self._holders[block] += 1
        blocks.extend(published)

    def _put_back(self, block: int) -> None:
        if block in self._keys:
            self._kept[block] = None
        else:
            self._blank.append(block)

    def _evict(self) -> int:
        block = next(iter(self._kept))
        del self._kept[block]
        del self._published[self._keys.pop(block)]
        return block


@dataclass(frozen=True, slots=True)
class Window:
    """Sliding-window attention: in ``layers`` a token sees the last ``tokens`` ones, itself included."""

    tokens: int
    layers: frozenset[int]


class KVCache:
    """Keys and values of all layers, [layers, blocks, BLOCK_SIZE, kv heads, head size] each.

    What lies before a ``window`` stays in its blocks: other layers, and who shares them, still read it.
    """

    def __init__(
        self,
        layers: int,
        blocks: int,
        kv_heads: int,
        head_size: int,
        dtype: torch.dtype,
        device: torch.device,
        window: Window | None = None,
    ) -> None:
        shape = (layers, blocks, BLOCK_SIZE, kv_heads, head_size)
        # Zeros, not empty: places after a sequence's end are read and then masked, and NaN times 0 is NaN.
        if device.type == "cpu":
            self.keys, self.values = huge_zeros(shape, dtype), huge_zeros(shape, dtype)
        else:
            self.keys = torch.zeros(shape, dtype=dtype, device=device)
            self.values = torch.zeros_like(self.keys)
        self.tokens = blocks * BLOCK_SIZE
        self.window = window

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put the keys and values [rows, kv heads, head size] of one layer into ``slots`` [rows]."""
        self.keys[layer].flatten(0, 1).index_copy_(0, slots, keys)
        self.values[layer].flatten(0, 1).index_copy_(0, slots, values)

    def wipe(self, blocks: torch.Tensor) -> None:
        """Put zeros into ``blocks`` before their first use: what a failed request left may be NaN."""
        self.keys[:, blocks] = 0
        self.values[:, blocks] = 0

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
