"""The load generator: users who stream one request after the other, and what came back, with times."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from dev.demo.plan import Phase
from dev.demo.prompts import Prompt

SILENCE_SECONDS = 120.0  # without one token for that long, a request counts as failed


@dataclass(slots=True)
class Request:
    """One request as its user saw it. Times are seconds since the epoch."""

    stage: str  # name of a phase; in replays with the arm, as in "free/depth-3", or "crowd/turns" of all
    prompt: str
    sent: float
    first_token: float | None = None
    last_token: float | None = None
    ended: float | None = None
    tokens: int = 0
    text: str = ""
    error: str | None = None


class Load:
    """Sends prompts to one address; keeps every request it made."""

    def __init__(self, address: str, model: str) -> None:
        self._address = address
        self._model = model
        self._session: aiohttp.ClientSession | None = None
        self.requests: list[Request] = []
        self.users = 0

    async def __aenter__(self) -> "Load":
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=SILENCE_SECONDS),
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    @asynccontextmanager
    async def under_way(self, phase: Phase, prompts: tuple[Prompt, ...]) -> AsyncIterator[None]:
        """Keep the phase's users busy meanwhile; then let what runs come to its end."""
        over = asyncio.Event()
        users = asyncio.create_task(self._run_until(over, phase, prompts))
        try:
            yield
        finally:
            over.set()
            await users

    async def _run_until(self, over: asyncio.Event, phase: Phase, prompts: tuple[Prompt, ...]) -> None:
        order = iter(range(10**9))

        async def user(number: int) -> None:
            await _unless(over, phase.join_seconds * number)
            self.users += not over.is_set()
            while not over.is_set():
                await self.send(phase.name, prompts[next(order) % len(prompts)], phase.max_tokens)
            self.users = max(self.users - 1, 0)

        await asyncio.gather(*(user(number) for number in range(phase.users)))
        self.users = 0

    async def run_once(self, stage: str, phase: Phase, prompts: tuple[Prompt, ...]) -> None:
        """Send every prompt once, with as many users as the phase has."""
        left = iter(prompts)

        async def user() -> None:
            for prompt in left:
                await self.send(stage, prompt, phase.max_tokens)

        await asyncio.gather(*(user() for _ in range(phase.users)))

    async def send(self, stage: str, prompt: Prompt, max_tokens: int) -> Request:
        """Send one request and read its stream to the end. Failures are recorded, not raised."""
        request = Request(stage, prompt.name, sent=time.time())
        self.requests.append(request)
        try:
            await self._stream(request, prompt, max_tokens)
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
            request.error = f"{type(error).__name__}: {error}"
            # Without this a refused connection would turn the user into a busy loop.
            await asyncio.sleep(1.0)
        request.ended = time.time()
        return request

    async def _stream(self, request: Request, prompt: Prompt, max_tokens: int) -> None:
        body = {
            "model": self._model,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "ignore_eos": prompt.ignore_eos,
        }
        if prompt.chat:
            path, body["messages"] = "/v1/chat/completions", [{"role": "user", "content": prompt.text}]
        else:
            path, body["prompt"] = "/v1/completions", prompt.text
        assert self._session is not None
        async with self._session.post(self._address + path, json=body) as answer:
            if answer.status != 200:
                request.error = f"HTTP {answer.status}"
                await asyncio.sleep(1.0)
                return
            async for event in _events(answer):
                _take(request, event)
        if request.tokens == 0 and request.error is None:
            request.error = "the stream ended without usage"


def _take(request: Request, event: dict[str, object]) -> None:
    if "error" in event:
        request.error = f"error in the stream: {event['error']}"
    choices, usage = event.get("choices"), event.get("usage")
    if isinstance(usage, dict):
        request.tokens = int(usage["completion_tokens"])
    if not isinstance(choices, list) or not choices:
        return
    choice = choices[0]
    piece = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
    if piece:
        now = time.time()
        request.first_token = request.first_token or now
        request.last_token = now
        request.text += piece


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, object]]:
    async for line in answer.content:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            event = json.loads(line[6:])
            if isinstance(event, dict):
                yield event


async def _unless(event: asyncio.Event, seconds: float) -> None:
    """Wait for a while, or for the event if that is sooner."""
    if seconds <= 0:
        return
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
