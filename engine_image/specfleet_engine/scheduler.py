"""Who reads its prompt, who decodes, who waits: the policy.

First come, first served. Every step serves all sequences that decode; prompts are read beside them, in
chunks of a bounded number of tokens, so that a long prompt stalls nobody for long. When the blocks run out,
the sequence that was admitted last gives all of its own back, waits at the head of the queue, and is read
again later (recompute); what the prefix cache still has of it is not.
"""

from collections import deque
from dataclasses import dataclass

from specfleet_engine.cache import BLOCK_SIZE, BlockPool, blocks_for
from specfleet_engine.sequence import Sequence

__all__ = ["AdmissionFailed", "Chunk", "Plan", "Scheduler", "Turn"]


class AdmissionFailed(Exception):
    """One sequence cannot be admitted, for a fault of its own or of the engine. It waits until removed."""

    def __init__(self, sequence: Sequence) -> None:
        super().__init__(f"the request {sequence.id} cannot be admitted")
        self.sequence = sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of one sequence to read: ``count`` tokens from ``sequence.written`` on."""

    sequence: Sequence
    count: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A sequence that decodes: it holds the slots of its last token and of ``room`` drafts after it."""

    sequence: Sequence
    room: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. ``preempted`` sequences have lost their blocks for it."""

    chunks: tuple[Chunk, ...]
    turns: tuple[Turn, ...]
    preempted: tuple[Sequence, ...]


class Scheduler:
    """Two queues and the block pool."""

    def __init__(self, pool: BlockPool, max_num_seqs: int, prompt_tokens_per_step: int) -> None:
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # in the order of admission
        self._max_num_seqs = max_num_seqs
        self._prompt_tokens_per_step = prompt_tokens_per_step
        self._preempted: list[Sequence] = []  # since the last plan

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

    def plan(self, depth: int) -> Plan | None:
        """Choose the next step. None: nobody can do anything.

        Who decodes takes its K+1 slots before anyone is admitted, so that a newcomer costs nobody a draft.
        Raises AdmissionFailed; without that sequence the next plan is the one that this would have been.
        """
        self._make_room_for_last_tokens()
        turns = tuple(
            Turn(sequence, self._take_draft_slots(sequence, depth))
            for sequence in self.running
            if sequence.decoding
        )
        chunks = self._read_prompts(depth)
        preempted, self._preempted = tuple(self._preempted), []
        return Plan(chunks, turns, preempted) if chunks or turns else None

    def _make_room_for_last_tokens(self) -> None:
        for sequence in tuple(self.running):
            while sequence.decoding and not self.pool.grow(sequence.blocks, len(sequence)):
                self._preempt(next(victim for victim in reversed(self.running) if victim.blocks))

    def _take_draft_slots(self, sequence: Sequence, depth: int) -> int:
        """How many drafts fit within depth, the sequence's length, and the blocks that are free now.

        A step emits one token beside the accepted drafts, hence the one less. Drafts preempt nobody.
        """
        free_slots = self.pool.reach(sequence.blocks) - len(sequence)
        room = max(0, min(depth, sequence.remaining - 1, free_slots))
        self.pool.grow(sequence.blocks, len(sequence) + room)
        return room

    def _read_prompts(self, depth: int) -> tuple[Chunk, ...]:
        budget = self._prompt_tokens_per_step
        chunks: list[Chunk] = []
        for sequence in self.running:
            if sequence.prefilling and budget:
                chunks.append(_chunk(sequence, budget))
                budget -= chunks[-1].count
        while budget and self.waiting and self._admit_first(depth):
            self.running.append(self.waiting.popleft())
            chunks.append(_chunk(self.running[-1], budget))
            budget -= chunks[-1].count
        return tuple(chunks)

    def _admit_first(self, depth: int) -> bool:
        try:
            return self._admit(self.waiting[0], depth)
        except Exception as error:
            raise AdmissionFailed(self.waiting[0]) from error

    def _admit(self, sequence: Sequence, depth: int) -> bool:
        """Give a sequence its blocks, if the batch and the pool have room.

        It takes all that it needs up to its first K+1 rows, and must leave one block for each that runs.
        The last token is always read, as its logits are needed: a whole prompt is never a prefix hit.
        """
        if len(self.running) >= self._max_num_seqs:
            return False
        tokens = min(len(sequence) + depth + 1, sequence.limit)
        cached = self.pool.cached(sequence.keys((len(sequence) - 1) // BLOCK_SIZE))
        new = blocks_for(tokens) - len(cached) + self.pool.count_free(cached)
        if new + len(self.running) > self.pool.free:
            return False
        self.pool.share(sequence.blocks, cached)
        self.pool.grow(sequence.blocks, tokens)
        sequence.written = len(cached) * BLOCK_SIZE
        sequence.published = len(cached)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.pool.release(sequence.blocks)
        sequence.rewind()
        self.waiting.appendleft(sequence)
        self._preempted.append(sequence)


def _chunk(sequence: Sequence, budget: int) -> Chunk:
    return Chunk(sequence, min(budget, len(sequence) - sequence.written))
