"""Runs one request and writes its answer, whole or as a stream of events.

The status waits for the first output: a request that fails before it gets an honest 500 and not a broken
stream. A client that goes away ends the request at once, whether it waits, reads a stream or waits for the
whole answer.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from specfleet_serving.active import Output
from specfleet_serving.answers import Answer
from specfleet_serving.errors import ApiError
from specfleet_serving.openai import StreamOptions

Outputs = AsyncIterator[Output]


def json_response(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Write JSON in plain ASCII: an echoed name may hold what UTF-8 cannot."""
    return Response(json.dumps(body), status, headers, media_type="application/json")


def error_response(error: ApiError) -> Response:
    """Write a refusal."""
    wait = error.retry_after_seconds
    return json_response(error.body(), error.status, {"Retry-After": str(wait)} if wait else None)


class Reply(Response):
    """The response to a request that a core will answer. ``opened`` submits it, and cancels it when left."""

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Outputs]],
        answer: Answer,
        stream: StreamOptions | None,
    ) -> None:
        super().__init__()
        self._opened = opened
        self._answer = answer
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or stop when the client is gone."""
        work = asyncio.ensure_future(self._answer_to(scope, receive, send))
        gone = asyncio.ensure_future(_client_gone(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            work.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)
        if not work.cancelled():
            work.result()

    async def _answer_to(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._opened() as outputs:
            try:
                if self._stream is None:
                    response = json_response(self._answer.whole([output async for output in outputs]))
                else:
                    first = await anext(outputs)
            except ApiError as error:
                response = error_response(error)
            else:
                if self._stream is not None:
                    await self._send_stream(first, outputs, self._stream, send)
                    return
        await response(scope, receive, send)

    async def _send_stream(self, first: Output, rest: Outputs, options: StreamOptions, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            await self._send_chunk(first, options, send)
            async for output in rest:
                await self._send_chunk(output, options, send)
            if options.include_usage:
                await _send_event(self._answer.usage_chunk(), send)
        except ApiError as error:
            await _send_event(error.body(), send)
        await _send(b"data: [DONE]\n\n", send, more=False)

    async def _send_chunk(self, output: Output, options: StreamOptions, send: Send) -> None:
        chunk = self._answer.chunk(output)
        if chunk is None:
            return
        if options.continuous_usage_stats:
            chunk["usage"] = self._answer.usage()
        elif options.include_usage:
            chunk["usage"] = None
        await _send_event(chunk, send)


async def _send_event(body: dict[str, Any], send: Send) -> None:
    await _send(f"data: {json.dumps(body)}\n\n".encode(), send, more=True)


async def _send(body: bytes, send: Send, more: bool) -> None:
    # A send to a client that is gone may fail before `_client_gone` says so.
    with contextlib.suppress(OSError):
        await send({"type": "http.response.body", "body": body, "more_body": more})


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
