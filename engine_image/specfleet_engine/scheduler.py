"""Who reads its prompt, who decodes, who waits: the policy.

First come, first served. Prompts are read in chunks of a bounded number of tokens, and between two such
steps comes a decode step, so that a long prompt stalls nobody for long. When the blocks run out, the
sequence that was admitted last gives all of its own back, waits at the head of the queue, and is read again
later (recompute).
"""

from collections import deque
from dataclasses import dataclass

from specfleet_engine.cache import BlockPool, blocks_for
from specfleet_engine.sequence import Sequence

__all__ = ["Chunk", "Decode", "Prefill", "Scheduler"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of one sequence to read: ``count`` tokens from ``sequence.written`` on."""

    sequence: Sequence
    count: int

    @property
    def last(self) -> bool:
        """After it the whole sequence has been read."""
        return self.sequence.written + self.count == len(self.sequence)

    @property
    def prompt_tokens(self) -> int:
        """How many of them are prompt and read for the first time, not again after a preemption."""
        end = min(self.sequence.written + self.count, self.sequence.prompt_length)
        return max(0, end - max(self.sequence.written, self.sequence.prompt_read))


@dataclass(frozen=True, slots=True)
class Prefill:
    """Read these chunks. ``admitted`` sequences left the waiting queue for the first time."""

    chunks: tuple[Chunk, ...]
    admitted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decode:
    """Decode these sequences; each has a slot for its last token. ``preempted`` others gave theirs back."""

    sequences: tuple[Sequence, ...]
    preempted: tuple[Sequence, ...]


class Scheduler:
    """Two queues and the block pool."""

    def __init__(self, pool: BlockPool, max_num_seqs: int, prompt_tokens_per_step: int) -> None:
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # in the order of admission
        self._max_num_seqs = max_num_seqs
        self._prompt_tokens_per_step = prompt_tokens_per_step
        self._read_last = False

    @property
    def decoding(self) -> int:
        return sum(sequence.decoding for sequence in self.running)

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence and free its blocks."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self.pool.release(sequence.blocks)

    def plan(self) -> Prefill | Decode | None:
        """Choose the next step. None: nobody can do anything."""
        decoding = self.decoding
        if not (self._read_last and decoding):
            prefill = self._plan_prefill()
            if prefill.chunks:
                self._read_last = True
                return prefill
        self._read_last = False
        return self._plan_decode() if decoding else None

    def draft_room(self, sequence: Sequence, depth: int) -> int:
        """How many drafts the sequence may have: within depth, its length, and the blocks that are free now.

        A step emits one token beside the accepted drafts, hence the one less. Drafts preempt nobody.
        """
        free_slots = self.pool.reach(sequence.blocks) - len(sequence)
        return max(0, min(depth, sequence.remaining - 1, free_slots))

    def _plan_prefill(self) -> Prefill:
        budget = self._prompt_tokens_per_step
        chunks: list[Chunk] = []
        admitted: list[str] = []
        for sequence in self.running:
            if sequence.prefilling and budget:
                chunks.append(_chunk(sequence, budget))
                budget -= chunks[-1].count
        while budget and self.waiting and self._admissible(self.waiting[0]):
            sequence = self.waiting.popleft()
            self.pool.grow(sequence.blocks, len(sequence))
            self.running.append(sequence)
            if not sequence.preempted:
                admitted.append(sequence.id)
            chunks.append(_chunk(sequence, budget))
            budget -= chunks[-1].count
        return Prefill(tuple(chunks), tuple(admitted))

    def _admissible(self, sequence: Sequence) -> bool:
        """Room in the batch, and blocks for all of it and one more for each that runs."""
        if len(self.running) >= self._max_num_seqs:
            return False
        return blocks_for(len(sequence)) + len(self.running) <= self.pool.free

    def _plan_decode(self) -> Decode:
        preempted: list[Sequence] = []
        for sequence in tuple(self.running):
            while sequence.decoding and not self.pool.grow(sequence.blocks, len(sequence)):
                preempted.append(next(victim for victim in reversed(self.running) if victim.blocks))
                self._preempt(preempted[-1])
        decoding = tuple(sequence for sequence in self.running if sequence.decoding)
        return Decode(decoding, tuple(preempted))

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.pool.release(sequence.blocks)
        sequence.written = 0
        sequence.prefilling = True
        sequence.preempted = True
        self.waiting.appendleft(sequence)


def _chunk(sequence: Sequence, budget: int) -> Chunk:
    return Chunk(sequence, min(budget, len(sequence) - sequence.written))
