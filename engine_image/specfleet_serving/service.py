"""One served core: checks and admits requests, says how it is. What the core gives is written by `reply`."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specfleet_serving import core
from specfleet_serving.answers import Answer
from specfleet_serving.arguments import Settings
from specfleet_serving.draft_summary import DraftSummary
from specfleet_serving.errors import Draining, InvalidRequest, QueueFull, UnknownModel
from specfleet_serving.follower import ScheduleFollower
from specfleet_serving.loop import StepLoop
from specfleet_serving.metrics import Metrics
from specfleet_serving.openai import ChatRequest, Common
from specfleet_serving.reading import (
    DEFAULT_COMPLETION_TOKENS,
    answer_limit,
    read_chat,
    read_completion,
)
from specfleet_serving.reply import Reply
from specfleet_serving.streams import Streams


class Service:
    """Lives in the event loop; the core lives in its loop's thread."""

    def __init__(
        self, engine: core.Core, tokenizer: core.Tokenizer, settings: Settings, metrics: Metrics
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.streams = Streams()
        self.follower = ScheduleFollower(
            settings.schedule_file,
            settings.initial_depth,
            engine.limits.max_depth,
            metrics.count_refused_schedule,
        )
        self.loop = StepLoop(engine, tokenizer, self.follower, metrics, self.streams.deliver)
        self.draining = False
        self._limits = engine.limits
        self._tokenizer = tokenizer
        self._encoding = asyncio.Lock()

    def start(self) -> None:
        """Start the threads; the service is ready when the warm-up is done."""
        self.follower.start()
        self.loop.start()

    def stop(self) -> None:
        """Stop the threads. A request that still runs gets an error."""
        self.follower.stop()
        self.loop.stop()

    @property
    def healthy(self) -> bool:
        """Whether a restart would not help: the loop runs, and its step is not stuck."""
        return self.loop.alive and self.loop.stalled_seconds < self.settings.stall_seconds

    @property
    def ready(self) -> bool:
        """Whether new requests are welcome."""
        return self.loop.warm and self.healthy and not self.loop.in_doubt and not self.draining

    async def complete(self, body: bytes) -> Reply:
        """Admit a completion request."""
        self._check_open()
        request = read_completion(body)
        self._check_model(request.model)
        if isinstance(request.prompt, str):
            prompt = await self._encode(request.prompt)
        else:
            prompt = request.prompt
            self._check_token_ids(prompt, "prompt")
        return self._admit(request, prompt, DEFAULT_COMPLETION_TOKENS)

    async def chat(self, body: bytes) -> Reply:
        """Admit a chat request."""
        self._check_open()
        request = read_chat(body)
        self._check_model(request.model)
        turns = [message.plain() for message in request.messages]
        try:
            async with self._encoding:
                prompt = await asyncio.to_thread(self._tokenizer.chat, turns)
        except ValueError as error:
            raise InvalidRequest("the chat template refuses this conversation", "messages") from error
        return self._admit(request, tuple(prompt), None)

    def speculation(self) -> dict[str, Any]:
        """Describe the speculation: method, schedule in force, counters."""
        document = self.follower.in_force
        return {
            "method": self._limits.method,
            "maxDepth": self._limits.max_depth,
            "depth": self.follower.depth,
            "schedule": {
                "version": document.version,
                "fence": document.fence,
                "issuedAt": document.issued_at,
                "table": [
                    {"depth": row.depth} | ({"maxRequests": row.max_requests} if row.max_requests else {})
                    for row in document.table
                ],
            },
            "counters": self.metrics.speculation(),
        }

    def _admit(self, request: Common, prompt: tuple[int, ...], default_tokens: int | None) -> Reply:
        limit = answer_limit(len(prompt), request.token_limit, default_tokens, self._limits)
        sampling = request.sampling(limit, self._tokenizer.eos_ids)
        self._check_supported(request)
        self._check_tokens(request, sampling)
        self._check_queue(request.n)
        # Tokenising took time: the drain may have begun.
        self._check_open()
        chat = isinstance(request, ChatRequest)
        name = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        choices = [
            core.Request(f"{name}-{index}" if index else name, prompt, _reseeded(sampling, index), not chat)
            for index in range(request.n)
        ]
        level = self.settings.answer_metrics
        drafts = None if level == "none" else DraftSummary(self._limits.max_depth, request.n, level)
        answer = Answer(request, [choice.id for choice in choices], prompt, chat, self._tokenizer, drafts)
        return Reply(
            lambda: self.streams.open(choices, self.loop.submit, self.loop.cancel),
            answer,
            request.options if request.stream else None,
        )

    async def _encode(self, text: str) -> tuple[int, ...]:
        # One at a time, and away from the event loop: a long text must not hold up the streams.
        async with self._encoding:
            return tuple(await asyncio.to_thread(self._tokenizer.encode, text))

    def _check_open(self) -> None:
        if self.draining:
            raise Draining("this replica is stopping; send the request again")
        if not self.loop.warm:
            raise Draining("the model is not ready yet; send the request again")
        if self.loop.in_doubt or not self.loop.alive:
            raise Draining("steps of the engine have failed and it checks itself; send the request again")

    def _check_model(self, name: str) -> None:
        if name != self.settings.served_model_name:
            raise UnknownModel(
                f"the model {name!a} does not exist; this server has {self.settings.served_model_name!a}",
                "model",
            )

    def _check_supported(self, request: Common) -> None:
        fields = type(request).model_fields
        for name in sorted(self._limits.unsupported & request.model_fields_set):
            if getattr(request, name) != fields[name].get_default(call_default_factory=True):
                raise InvalidRequest(f"{name} is not supported by this engine; leave it out", name)

    def _check_tokens(self, request: Common, sampling: core.Sampling) -> None:
        self._check_token_ids([token for token, _ in sampling.logit_bias], "logit_bias")
        self._check_token_ids(request.stop_token_ids, "stop_token_ids")
        if sampling.min_tokens > sampling.max_tokens:
            raise InvalidRequest(
                f"min_tokens is {sampling.min_tokens}, more than the {sampling.max_tokens} of this answer",
                "min_tokens",
            )
        if sampling.min_tokens and len(sampling.ends) >= self._tokenizer.vocabulary_size:
            raise InvalidRequest("min_tokens leaves no token: every one would end the answer", "min_tokens")

    def _check_token_ids(self, tokens: Sequence[int], param: str) -> None:
        size = self._tokenizer.vocabulary_size
        for token in tokens:
            if not 0 <= token < size:
                raise InvalidRequest(f"{param}: token id {token} is outside 0..{size - 1}", param)

    def _check_queue(self, choices: int) -> None:
        room = self.settings.max_queued_requests
        if choices > room:
            raise InvalidRequest(f"n is {choices}, and at most {room} may wait here", "n")
        if self.loop.queued + choices > room:
            self.metrics.count_refused_request()
            raise QueueFull(f"{self.loop.queued} requests wait already; send this one again later")


def _reseeded(sampling: core.Sampling, index: int) -> core.Sampling:
    """Give each choice a stream of its own; the first has the seed of a request for one, as in vLLM."""
    return sampling if sampling.seed is None else replace(sampling, seed=sampling.seed + index)
