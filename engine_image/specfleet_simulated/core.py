"""The core of the simulated engine: admission, KV cache, steps that really take their time.

A step either reads prompts or decodes. Requests are admitted in order while batch and KV cache have room;
when the cache runs out, the request that came last gives its place up and reads its text again later.
"""

import time
from collections import deque
from dataclasses import dataclass

from specfleet_serving.core import Limits, Load, Request, SequenceStep, Step
from specfleet_simulated.cost import CostModel
from specfleet_simulated.script import Acceptance, Script
from specfleet_simulated.tokenizer import SimulatedTokenizer

BLOCK_TOKENS = 16
# There is no distribution to change or to show. Temperature, top_p, top_k and min_p leave a text without
# alternatives as it is, so they are fine.
UNSUPPORTED = frozenset(
    {"frequency_penalty", "logit_bias", "logprobs", "presence_penalty", "repetition_penalty"}
)
# What one step reads of prompts at most: vLLM's default for serving.
PROMPT_TOKENS_PER_STEP = 2048


@dataclass(slots=True)
class _Sequence:
    request: Request
    script: Script
    generated: int = 0
    cached: int = 0  # tokens in the KV cache: the prompt is read once they are all there
    counted: bool = False  # its prompt is in the metrics: a preempted one is read twice

    @property
    def length(self) -> int:
        return len(self.request.prompt) + self.generated

    @property
    def reads(self) -> bool:
        # The newest token has no place in the cache until the step that follows it.
        return self.cached < max(self.length - 1, len(self.request.prompt))

    def reach(self, depth: int) -> int:
        """Give how many tokens may be drafted: the last one of a step is never a draft."""
        return max(min(depth, self.request.sampling.max_tokens - self.generated - 1), 0)


class SimulatedCore:
    """Implements `specfleet_serving.core.Core`."""

    def __init__(
        self, limits: Limits, cost: CostModel, acceptance: Acceptance, tokenizer: SimulatedTokenizer
    ) -> None:
        self.limits = limits
        self._cost = cost
        self._acceptance = acceptance
        self._tokenizer = tokenizer
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._due = 0.0

    def add(self, request: Request) -> None:
        """Queue a request."""
        self._waiting.append(_Sequence(request, Script(request, self._tokenizer, self._acceptance)))

    def remove(self, request_id: str) -> None:
        """Forget a request, wherever it is."""
        self._waiting = deque(one for one in self._waiting if one.request.id != request_id)
        self._running = [one for one in self._running if one.request.id != request_id]

    def load(self) -> Load:
        """Say how busy the engine is."""
        return Load(
            running=len(self._running),
            decoding=sum(not one.reads for one in self._running),
            waiting=len(self._waiting),
            kv_usage=self._used_blocks() / self._blocks,
        )

    def step(self, depth: int) -> Step | None:
        """Read prompts if any can be read, else decode; wait as long as that takes."""
        began = time.monotonic()
        admitted = self._admit()
        if any(one.reads for one in self._running):
            return self._read_prompts(began, depth, admitted)
        if self._running:
            return self._decode(began, depth)
        return None

    @property
    def _blocks(self) -> int:
        return self.limits.kv_tokens // BLOCK_TOKENS

    def _used_blocks(self) -> int:
        return sum(_blocks(max(one.cached, one.length)) for one in self._running)

    def _admit(self) -> tuple[str, ...]:
        admitted: list[str] = []
        free = self._blocks - self._used_blocks()
        while self._waiting and len(self._running) < self.limits.max_num_seqs:
            needed = _blocks(self._waiting[0].length + 1)
            if needed > free:
                break
            free -= needed
            sequence = self._waiting.popleft()
            self._running.append(sequence)
            admitted.append(sequence.request.id)
        return tuple(admitted)

    def _read_prompts(self, began: float, depth: int, admitted: tuple[str, ...]) -> Step:
        budget = PROMPT_TOKENS_PER_STEP
        first_tokens: list[SequenceStep] = []
        counted = 0
        for one in self._running:
            if not one.reads or not budget:
                continue
            resumed = one.generated > 0
            whole = one.length - 1 if resumed else one.length
            tokens = min(budget, whole - one.cached)
            budget -= tokens
            one.cached += tokens
            if one.reads:
                continue
            if not one.counted:
                counted += len(one.request.prompt)
                one.counted = True
            if not resumed:
                first_tokens.append(SequenceStep(one.request.id, (one.script.token(0),), first=True))
                one.generated = 1
        seconds = self._wait(began, self._cost.prompt_seconds(PROMPT_TOKENS_PER_STEP - budget))
        return Step(
            depth=depth,
            decoding=0,
            seconds=seconds,
            sequences=tuple(first_tokens),
            admitted=admitted,
            prompt_tokens=counted,
        )

    def _decode(self, began: float, depth: int) -> Step:
        preempted = self._make_room(depth)
        kv_tokens = sum(one.cached for one in self._running)
        drafted = [one.reach(depth) for one in self._running]
        rows = len(self._running) + sum(drafted)
        sequences = tuple(map(_advance, self._running, drafted))
        drafting = self._cost.draft_seconds(depth)
        seconds = self._wait(began, self._cost.decode_seconds(rows, kv_tokens, depth))
        return Step(
            depth=depth,
            decoding=len(sequences),
            seconds=seconds,
            sequences=sequences,
            preempted=preempted,
            proposer_seconds=drafting,
            verify_seconds=seconds - drafting,
        )

    def _make_room(self, depth: int) -> int:
        """Preempt from the youngest on until a step at this depth fits; give how many gave way."""
        preempted = 0
        while len(self._running) > 1 and self._blocks < sum(
            _blocks(one.length + one.reach(depth) + 1) for one in self._running
        ):
            youngest = self._running.pop()
            youngest.cached = 0
            self._waiting.appendleft(youngest)
            preempted += 1
        return preempted

    def _wait(self, began: float, seconds: float) -> float:
        """Wait until a step is due and give the time it took.

        Steps back to back keep the model's pace: a step begins when the one before was due. The loop's own
        work is a part of it then, as it is of the time that users see.
        """
        start = self._due if began - self._due < seconds else began
        self._due = start + seconds
        time.sleep(max(self._due - time.monotonic(), 0.0))
        return time.monotonic() - start


def _advance(sequence: _Sequence, drafted: int) -> SequenceStep:
    accepted = sequence.script.accepted(drafted)
    at = sequence.generated
    tokens = tuple(sequence.script.token(at + offset) for offset in range(accepted + 1))
    sequence.cached = sequence.length + accepted
    sequence.generated += accepted + 1
    return SequenceStep(sequence.request.id, tokens, drafted, accepted)


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)
