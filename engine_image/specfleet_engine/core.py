"""The engine behind the serving loop: joins scheduler, proposer, model and verification into steps.

A step is one forward pass for whatever there is to do: chunks of prompts, one row for each sequence that
decodes, and the rows of its drafts. It keeps what the target agrees with. Depth 0 is plain decode: no
proposer call, one row for each sequence.
"""

import time

import numpy as np
import torch

from specfleet_engine.accounts import announce, count_prompts, report
from specfleet_engine.batch import Batch, Rows, build_batch
from specfleet_engine.cache import BLOCK_SIZE, BlockPool
from specfleet_engine.forward import TargetModel
from specfleet_engine.memory import affordable_blocks, check_memory, free_bytes, largest_step_bytes
from specfleet_engine.proposers import Draft, Proposer
from specfleet_engine.scheduler import AdmissionFailed, Chunk, Plan, Scheduler, Turn
from specfleet_engine.sequence import Sequence
from specfleet_engine.verify import Verdict, verify
from specfleet_serving.core import Limits, Load, Request, SequenceStep, Step, StepFailed

__all__ = ["EngineCore"]

# Bounds what a prompt may stall the others: about half a second for 135M parameters on two cores. A GPU has
# to have more to do at once, and takes vLLM's default.
PROMPT_TOKENS_PER_STEP = {"cpu": 256, "cuda": 2048}


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
        self.bytes_per_token = model.kv_bytes_per_token + model.feature_bytes_per_token
        self.bytes_per_token += proposer.bytes_per_token if proposer else 0
        blocks = affordable_blocks(self.bytes_per_token, max_model_len, max_num_seqs, kv_cache_mib)
        self.limits = Limits(
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            max_depth=max_depth if proposer else 0,
            method=proposer.method if proposer else "none",
            kv_tokens=blocks * BLOCK_SIZE,
            kv_block_size=BLOCK_SIZE,
        )
        draws = proposer is not None and proposer.draws
        self.step_bytes = largest_step_bytes(model, self.limits, draws=draws)
        kv_bytes = self.limits.kv_tokens * self.bytes_per_token
        check_memory(kv_bytes, self.step_bytes, free_bytes(model.device))
        self._model = model
        self._proposer = proposer
        self._kv = model.new_cache(blocks)
        self._features = model.new_features(blocks)
        if proposer:
            proposer.prepare(blocks, self._features)
        chunk = PROMPT_TOKENS_PER_STEP[model.device.type]
        self._scheduler = Scheduler(BlockPool(blocks), max_num_seqs, chunk)
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
        """Run one step. Raises StepFailed, and ValueError for a depth that the engine was not started for."""
        if not 0 <= depth <= self.limits.max_depth:
            raise ValueError(f"depth must be 0 to {self.limits.max_depth}, got {depth}")
        begin = time.perf_counter()
        try:
            plan = self._scheduler.plan(depth)
        except AdmissionFailed as error:
            raise StepFailed(frozenset({error.sequence.id}), error) from error
        if plan is None:
            return None
        for sequence in plan.preempted:
            self._forget(sequence.id)
        try:
            with torch.inference_mode():
                return self._run(plan, depth, begin)
        except Exception as error:
            batch = (*(chunk.sequence for chunk in plan.chunks), *(turn.sequence for turn in plan.turns))
            raise StepFailed(frozenset(one.id for one in batch), error) from error

    def _run(self, plan: Plan, depth: int, begin: float) -> Step:
        planned = time.perf_counter()
        drafts = self._draft(plan.turns)
        drafted = time.perf_counter()
        rows = [_reading(chunk) for chunk in plan.chunks]
        rows += [_verifying(turn.sequence, drafts.get(turn.sequence.id)) for turn in plan.turns]
        batch = build_batch(rows, self._kv, self._features)
        verdicts = self._judge(batch)
        read = count_prompts(plan.chunks)
        sequences = self._commit(batch.rows, verdicts)
        verified = time.perf_counter()
        self._observe(batch, depth)
        end = time.perf_counter()
        return Step(
            depth=depth,
            decoding=len(plan.turns),
            seconds=end - begin,
            sequences=sequences,
            admitted=announce(plan.chunks),
            prompt_tokens=read.tokens,
            cached_prompt_tokens=read.cached,
            preempted=len(plan.preempted),
            proposer_seconds=drafted - planned + end - verified if depth else 0.0,
            verify_seconds=verified - drafted,
        )

    def _draft(self, turns: tuple[Turn, ...]) -> dict[str, Draft]:
        """Drafts by sequence id, of those that have room for any: at depth 0 nobody, and no call."""
        roomy = [turn for turn in turns if turn.room]
        if not self._proposer or not roomy:
            return {}
        drafts = self._proposer.propose(
            tuple(turn.sequence for turn in roomy), tuple(turn.room for turn in roomy)
        )
        return {turn.sequence.id: draft for turn, draft in zip(roomy, drafts, strict=True)}

    def _judge(self, batch: Batch) -> dict[str, Verdict]:
        """Run all rows through the model; verdicts by sequence id, of those whose last token was read."""
        judged = tuple(row for row in batch.rows if row.judged)
        logits = self._model.run(batch, judged)
        verdicts = verify(logits, judged) if judged else []
        return {row.sequence.id: verdict for row, verdict in zip(judged, verdicts, strict=True)}

    def _observe(self, batch: Batch, depth: int) -> None:
        if self._proposer and depth:
            # One at its limit has given its blocks back.
            self._proposer.observe(tuple(row.sequence for row in batch.rows if row.sequence.blocks))

    def _forget(self, sequence_id: str) -> None:
        if self._proposer:
            self._proposer.forget(sequence_id)

    def _commit(self, rows: tuple[Rows, ...], verdicts: dict[str, Verdict]) -> tuple[SequenceStep, ...]:
        """Make what was read and verified part of the sequences, and report the new tokens.

        A sequence at its limit needs no blocks any more, and a failed one goes nowhere, though both stay
        until they are removed.
        """
        steps = []
        for row in rows:
            sequence, verdict = row.sequence, verdicts.get(row.sequence.id)
            if not (verdict and verdict.failed):
                sequence.written = row.start + len(row.tokens) - row.drafts
            if verdict:
                steps.append(report(row, verdict))
                self._take(sequence, verdict)
        return tuple(steps)

    def _take(self, sequence: Sequence, verdict: Verdict) -> None:
        if verdict.failed:
            return
        sequence.prefilling = False
        sequence.written += verdict.accepted
        sequence.append(verdict.tokens)
        self._publish(sequence)
        if not sequence.remaining:
            self._scheduler.pool.release(sequence.blocks)

    def _publish(self, sequence: Sequence) -> None:
        """Let others share the blocks that are full of verified tokens.

        Only after a verdict: its logits were finite, so all KV that they came from is.
        """
        full = sequence.written // BLOCK_SIZE
        keys = sequence.keys(full)
        for number in range(sequence.published, full):
            self._scheduler.pool.publish(sequence.blocks[number], keys[number])
        sequence.published = full


def _reading(chunk: Chunk) -> Rows:
    start = chunk.sequence.written
    return Rows(chunk.sequence, start, chunk.sequence.tokens[start : start + chunk.count])


def _verifying(sequence: Sequence, draft: Draft | None) -> Rows:
    """The last token, which has no KV yet, and the drafts after it."""
    start = len(sequence) - 1
    tokens = sequence.tokens[start:]
    if draft is None:
        return Rows(sequence, start, tokens)
    tokens = np.concatenate([tokens, draft.tokens])
    return Rows(sequence, start, tokens, len(draft.tokens), draft.probabilities)
