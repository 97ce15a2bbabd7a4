"""The HTTP side: routes, admission and refusals. What a core gives is written by `reply`."""

import asyncio
import uuid
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from specfleet_serving import core
from specfleet_serving.answers import Answer
from specfleet_serving.arguments import Settings
from specfleet_serving.errors import ApiError, Draining, InvalidRequest, QueueFull, TooLarge, UnknownModel
from specfleet_serving.follower import ScheduleFollower
from specfleet_serving.loop import StepLoop
from specfleet_serving.metrics import Metrics
from specfleet_serving.openai import (
    DEFAULT_COMPLETION_TOKENS,
    ChatRequest,
    CompletionRequest,
    answer_limit,
    read_chat,
    read_completion,
)
from specfleet_serving.reply import Reply, error_response, json_response
from specfleet_serving.streams import Streams


class Service:
    """One served core: admits requests, and says how it is. Lives in the event loop."""

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
        return self.loop.warm and self.healthy and not self.draining

    async def complete(self, body: bytes) -> Reply:
        """Admit a completion request."""
        self._check_open()
        request = read_completion(body)
        self._check_model(request.model)
        if isinstance(request.prompt, str):
            prompt = await self._encode(request.prompt)
        else:
            prompt = request.prompt
            self._check_token_ids(prompt)
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

    def _admit(
        self, request: CompletionRequest | ChatRequest, prompt: tuple[int, ...], default_tokens: int | None
    ) -> Reply:
        limit = answer_limit(len(prompt), request.token_limit, default_tokens, self._limits)
        if self.loop.queued >= self.settings.max_queued_requests:
            self.metrics.count_refused_request()
            raise QueueFull(f"{self.loop.queued} requests wait already; send this one again later")
        # Tokenising took time: the drain may have begun.
        self._check_open()
        chat = isinstance(request, ChatRequest)
        generation = core.Request(
            f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}", prompt, request.sampling(limit)
        )
        answer = Answer(
            generation.id, self.settings.served_model_name, chat, prompt, request.return_token_ids
        )
        return Reply(
            lambda: self.streams.open(generation, self.loop.submit, self.loop.cancel),
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
        if not self.loop.alive:
            raise Draining("the engine has failed; send the request again")

    def _check_model(self, name: str) -> None:
        if name != self.settings.served_model_name:
            raise UnknownModel(
                f"the model {name!a} does not exist; this server has {self.settings.served_model_name!a}",
                "model",
            )

    def _check_token_ids(self, prompt: tuple[int, ...]) -> None:
        size = self._tokenizer.vocabulary_size
        for token in prompt:
            if not 0 <= token < size:
                raise InvalidRequest(f"token id {token} is outside 0..{size - 1}", "prompt")


def build_app(service: Service) -> FastAPI:
    """Build the routes around a service."""
    app = FastAPI(title="specfleet", openapi_url=None)
    _add_refusals(app)
    _add_probes(app, service)

    @app.get("/v1/models")
    async def models() -> Response:
        model = {"id": service.settings.served_model_name, "object": "model", "owned_by": "specfleet"}
        return json_response({"object": "list", "data": [model | {"created": 0}]})

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await service.complete(await _body(request, service.settings.max_body_bytes))

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        return await service.chat(await _body(request, service.settings.max_body_bytes))

    @app.get("/v1/speculation")
    async def speculation() -> Response:
        return json_response(service.speculation())

    return app


def _add_probes(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200 if service.healthy else 503)

    @app.get("/ready")
    async def ready() -> Response:
        return Response(status_code=200 if service.ready else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/version")
    async def software() -> Response:
        return json_response({"version": _version()})


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def refused(_: Request, error: ApiError) -> Response:
        return error_response(error)

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> Response:
        return error_response(ApiError("the server failed at this request; its log says why"))

    @app.exception_handler(HTTPException)
    async def no_such_route(request: Request, error: HTTPException) -> Response:
        refusal = ApiError(f"{request.method} {request.url.path}: {error.detail}")
        refusal.status, refusal.kind = error.status_code, "invalid_request_error"
        return error_response(refusal)


async def _body(request: Request, limit: int) -> bytes:
    too_large = TooLarge(f"the body is larger than {limit} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise too_large
    return bytes(body)


def _version() -> str:
    try:
        return version("specfleet")
    except PackageNotFoundError:
        return "unknown"
