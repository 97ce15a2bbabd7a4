"""Which blocks hold a proposer's KV of which text.

A prefix hit gives a sequence blocks that others have filled. The target's KV in them is right, or they would
not be shared; whether the proposer has read them too is known here, so that it need not read a shared prompt
again for each request. Blocks are known by the keys that the prefix cache knows them by.
"""

from collections.abc import Iterable

from specfleet_engine.batch import Rows
from specfleet_engine.cache import BLOCK_SIZE
from specfleet_engine.sequence import Sequence

__all__ = ["SharedReads"]


class SharedReads:
    """For each block the key of the text whose KV a proposer has put there, if it is full of it."""

    def __init__(self) -> None:
        self._keys: dict[int, bytes] = {}

    def known(self, sequence: Sequence) -> int:
        """How many of the sequence's first tokens a proposer need not read."""
        full = sequence.written // BLOCK_SIZE
        count = 0
        for block, key in zip(sequence.blocks, sequence.keys(full), strict=False):
            if self._keys.get(block) != key:
                break
            count += BLOCK_SIZE
        return count

    def note(self, sequence: Sequence, before: int, after: int) -> None:
        """Take note that the KV of verified tokens from ``before`` to ``after`` is in place."""
        keys = sequence.keys(after // BLOCK_SIZE)
        for number in range(before // BLOCK_SIZE, len(keys)):
            self._keys[sequence.blocks[number]] = keys[number]

    def overwrite(self, rows: Iterable[Rows]) -> None:
        """Forget what lies where ``rows`` are about to be written, unless it is the same text."""
        for row in rows:
            first, last = row.start // BLOCK_SIZE, (row.start + len(row.tokens) - 1) // BLOCK_SIZE
            keys = row.sequence.keys(min(last + 1, len(row.sequence) // BLOCK_SIZE))
            for number in range(first, last + 1):
                block = row.sequence.blocks[number]
                if number >= len(keys) or self._keys.get(block) != keys[number]:
                    self._keys.pop(block, None)
