"""The engine behind the serving loop: joins scheduler, proposer, model and verification into steps.

A step either reads prompt chunks or decodes. A decode step drafts, runs all rows of all sequences in one
forward pass, and keeps what the target agrees with. Depth 0 is plain decode: no proposer call, one row for
each sequence.
"""

import time

import numpy as np
import torch

from specfleet_engine.batch import Batch, Rows, build_batch
from specfleet_engine.cache import BLOCK_SIZE, BlockPool, blocks_for
from specfleet_engine.errors import KVCacheTooSmall
from specfleet_engine.forward import TargetModel
from specfleet_engine.proposers import Draft, Proposer
from specfleet_engine.scheduler import Decode, Prefill, Scheduler
from specfleet_engine.sequence import Sequence
from specfleet_engine.verify import Verdict, verify
from specfleet_serving.core import Limits, Load, Request, SequenceStep, Step

__all__ = ["EngineCore"]

# Bounds what a prompt may stall the others: about half a second for 135M parameters on two cores.
PROMPT_TOKENS_PER_STEP = 256

_MIB = 1 << 20


class EngineCore:
    """The `Core` of `specfleet_serving` on a real model. Without a proposer every depth is 0."""

    def __init__(
        self,
        model: TargetModel,
        proposer: Proposer | None,
        *,
        max_model_len: int,
        max_num_seqs: int,
        max_depth: int,
        kv_cache_mib: int,
    ) -> None:
        if proposer:
            model.watch(proposer.needs)
        bytes_per_token = model.kv_bytes_per_token + model.feature_bytes_per_token
        bytes_per_token += proposer.bytes_per_token if proposer else 0
        blocks = _affordable_blocks(bytes_per_token, max_model_len, max_num_seqs, kv_cache_mib)
        self.limits = Limits(
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            max_depth=max_depth if proposer else 0,
            method=proposer.method if proposer else "none",
            kv_tokens=blocks * BLOCK_SIZE,
            kv_block_size=BLOCK_SIZE,
        )
        self._model = model
        self._proposer = proposer
        self._kv = model.new_cache(blocks)
        self._features = model.new_features(blocks)
        if proposer:
            proposer.prepare(blocks, self._features)
        self._scheduler = Scheduler(BlockPool(blocks), max_num_seqs, PROMPT_TOKENS_PER_STEP)
        self._sequences: dict[str, Sequence] = {}

    def add(self, request: Request) -> None:
        """Queue a request. Raises ValueError for an id in use or a prompt that leaves no room to answer."""
        if request.id in self._sequences:
            raise ValueError(f"request id {request.id!r} is already in use")
        if not 0 < len(request.prompt) < self.limits.max_model_len:
            raise ValueError(
                f"a prompt must have 1 to {self.limits.max_model_len - 1} tokens, got {len(request.prompt)}"
            )
        sequence = Sequence(request, self.limits.max_model_len)
        self._sequences[request.id] = sequence
        self._scheduler.add(sequence)

    def remove(self, request_id: str) -> None:
        """Forget a request and free its blocks at once. Unknown ids are fine."""
        sequence = self._sequences.pop(request_id, None)
        if sequence is not None:
            self._scheduler.remove(sequence)
            self._forget(request_id)

    def load(self) -> Load:
        scheduler = self._scheduler
        return Load(
            running=len(scheduler.running),
            decoding=scheduler.decoding,
            waiting=len(scheduler.waiting),
            kv_usage=scheduler.pool.usage,
        )

    def step(self, depth: int) -> Step | None:
        """Run one step. Raises ValueError for a depth that the engine was not started for."""
        if not 0 <= depth <= self.limits.max_depth:
            raise ValueError(f"depth must be 0 to {self.limits.max_depth}, got {depth}")
        begin = time.perf_counter()
        with torch.inference_mode():
            match self._scheduler.plan():
                case Prefill() as plan:
                    return self._read(plan, depth, begin)
                case Decode() as plan:
                    return self._decode(plan, depth, begin)
                case None:
                    return None

    def _read(self, plan: Prefill, depth: int, begin: float) -> Step:
        rows = [
            Rows(
                chunk.sequence,
                chunk.sequence.written,
                chunk.sequence.tokens[chunk.sequence.written : chunk.sequence.written + chunk.count],
            )
            for chunk in plan.chunks
        ]
        prompt_tokens = sum(chunk.prompt_tokens for chunk in plan.chunks)
        finishing = {chunk.sequence.id for chunk in plan.chunks if chunk.last}
        batch = build_batch(rows, self._kv, self._features)
        judged = tuple(row for row in batch.rows if row.sequence.id in finishing)
        logits = self._model.run(batch, judged)
        verdicts = verify(logits, judged) if judged else []
        for chunk in plan.chunks:
            chunk.sequence.written += chunk.count
            chunk.sequence.prompt_read = max(
                chunk.sequence.prompt_read, min(chunk.sequence.written, chunk.sequence.prompt_length)
            )
        for row in judged:
            row.sequence.prefilling = False
        sequences = self._commit(judged, verdicts)
        self._observe(batch, depth)
        return Step(
            depth=depth,
            decoding=0,
            seconds=time.perf_counter() - begin,
            sequences=sequences,
            admitted=plan.admitted,
            prompt_tokens=prompt_tokens,
        )

    def _decode(self, plan: Decode, depth: int, begin: float) -> Step:
        for sequence in plan.preempted:
            self._forget(sequence.id)
        rows = self._draft(plan.sequences, depth)
        drafted = time.perf_counter()
        batch = build_batch(rows, self._kv, self._features)
        verdicts = verify(self._model.run(batch, batch.rows), batch.rows)
        for row, verdict in zip(batch.rows, verdicts, strict=True):
            row.sequence.written += len(verdict.tokens)
        sequences = self._commit(batch.rows, verdicts)
        verified = time.perf_counter()
        self._observe(batch, depth)
        end = time.perf_counter()
        return Step(
            depth=depth,
            decoding=len(rows),
            seconds=end - begin,
            sequences=sequences,
            preempted=len(plan.preempted),
            proposer_seconds=drafted - begin + end - verified if depth else 0.0,
            verify_seconds=verified - drafted,
        )

    def _draft(self, sequences: tuple[Sequence, ...], depth: int) -> list[Rows]:
        """The last token of each, which has no KV yet, and what may follow it."""
        drafts: dict[str, Draft] = {}
        if self._proposer and depth:
            roomy = self._with_room(sequences, depth)
            proposed = self._proposer.propose(tuple(roomy), tuple(roomy.values())) if roomy else []
            drafts = {sequence.id: draft for sequence, draft in zip(roomy, proposed, strict=True)}
        return [_rows(sequence, drafts.get(sequence.id)) for sequence in sequences]

    def _with_room(self, sequences: tuple[Sequence, ...], depth: int) -> dict[Sequence, int]:
        """Who may draft how much; the blocks for it are taken."""
        roomy = {}
        for sequence in sequences:
            if room := self._scheduler.draft_room(sequence, depth):
                self._scheduler.pool.grow(sequence.blocks, len(sequence) + room)
                roomy[sequence] = room
        return roomy

    def _observe(self, batch: Batch, depth: int) -> None:
        if self._proposer and depth:
            # One at its limit has given its blocks back.
            self._proposer.observe(tuple(row.sequence for row in batch.rows if row.sequence.blocks))

    def _forget(self, sequence_id: str) -> None:
        if self._proposer:
            self._proposer.forget(sequence_id)

    def _commit(self, rows: tuple[Rows, ...], verdicts: list[Verdict]) -> tuple[SequenceStep, ...]:
        """Make the verified tokens part of their sequences, and report them.

        A sequence at its limit needs no blocks any more, though it stays until it is removed.
        """
        steps = []
        for row, verdict in zip(rows, verdicts, strict=True):
            sequence = row.sequence
            first = len(sequence) == sequence.prompt_length
            sequence.append(verdict.tokens)
            if not sequence.remaining:
                self._scheduler.pool.release(sequence.blocks)
            steps.append(
                SequenceStep(
                    sequence.id,
                    verdict.tokens,
                    row.drafts,
                    verdict.accepted,
                    first,
                    verdict.logprobs,
                    verdict.failed,
                )
            )
        return tuple(steps)


def _rows(sequence: Sequence, draft: Draft | None) -> Rows:
    start = len(sequence) - 1
    tokens = sequence.tokens[start:]
    if draft is None:
        return Rows(sequence, start, tokens)
    tokens = np.concatenate([tokens, draft.tokens])
    return Rows(sequence, start, tokens, len(draft.tokens), draft.probabilities)


def _affordable_blocks(bytes_per_token: int, max_model_len: int, max_num_seqs: int, kv_cache_mib: int) -> int:
    """Blocks that the memory buys, but not more than all sequences at their longest can use."""
    bytes_per_block = bytes_per_token * BLOCK_SIZE
    affordable = kv_cache_mib * _MIB // bytes_per_block
    needed = blocks_for(max_model_len)
    if affordable < needed:
        wanted = -(-needed * bytes_per_block // _MIB)
        raise KVCacheTooSmall(
            f"a KV cache of {kv_cache_mib} MiB holds {affordable * BLOCK_SIZE} tokens, fewer than the "
            f"{max_model_len} of one sequence: give --kv-cache-mib {wanted} or more, or lower --max-model-len"
        )
    return min(affordable, needed * max_num_seqs)
