"""The load: so many requests at once over HTTP, streamed, each with a fixed number of tokens."""

import http.client
import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier, BrokenBarrierError, Lock

from dev.bench.errors import BenchError

__all__ = ["Counters", "Slice", "Watch", "counters", "drive"]

_SECONDS = 120.0
_COUNTER = re.compile(r'^specfleet_(\w+)_total(?:\{depth="(\d+)"\})? (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Slice:
    """What one arm did in one slice."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Output tokens a second."""
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Counters:
    """Our engine's decode steps, their seconds, and those of them that went into the target, up to ``at``."""

    at: float
    steps: float
    step_seconds: float
    verify_seconds: float


class Watch:
    """Looks at an engine twice in a slice: when all users have begun to get tokens, and when one has all.

    Between the two the batch is the same in every step, and no prompt is read.
    """

    def __init__(self, look: Callable[[], Counters], users: int) -> None:
        self._look = look
        self._begun = Barrier(users, action=self._add, timeout=_SECONDS)
        self._ended = Lock()
        self._found: list[Counters] = []

    def begin(self) -> None:
        """Say that one user has the first token, and wait for the others. Raises BenchError if one failed."""
        try:
            self._begun.wait()
        except BrokenBarrierError as error:
            raise BenchError("another user of the slice got no answer") from error

    def end(self) -> None:
        """Say that one user has all tokens."""
        if self._ended.acquire(blocking=False):
            self._add()

    def fail(self) -> None:
        """Let nobody wait for a user who got no answer."""
        self._begun.abort()

    def steps(self) -> dict[str, float]:
        """Give the mean time of a step, and the share of the time that the target itself took.

        Raises BenchError if there were no steps.
        """
        first, last = self._found
        steps = last.steps - first.steps
        if steps <= 0:
            raise BenchError("the engine ran no step at the wanted depth: did it take the schedule?")
        return {
            "step_seconds": (last.step_seconds - first.step_seconds) / steps,
            "target_share": (last.verify_seconds - first.verify_seconds) / (last.at - first.at),
        }

    def _add(self) -> None:
        self._found.append(self._look())


def drive(port: int, model: str, prompts: Sequence[str], tokens: int, watch: Watch | None = None) -> Slice:
    """Send all prompts at once and wait for all answers.

    Raises BenchError for an answer that is missing or has a wrong number of tokens.
    """
    with ThreadPoolExecutor(len(prompts)) as users:
        began = time.monotonic()
        answered = list(users.map(lambda prompt: _complete(port, model, prompt, tokens, watch), prompts))
        seconds = time.monotonic() - began
    if answered != [tokens] * len(prompts):
        raise BenchError(f"asked for {tokens} tokens each, got {answered}")
    return Slice(sum(answered), seconds)


def counters(port: int, depth: int) -> Counters:
    """Read our engine's counters, those of steps at ``depth``."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    connection.request("GET", "/metrics")
    at = time.monotonic()
    text = connection.getresponse().read().decode()
    connection.close()
    found = {(name, label): float(value) for name, label, value in _COUNTER.findall(text)}
    return Counters(
        at, found["steps", str(depth)], found["step_seconds", str(depth)], found["verify_seconds", ""]
    )


def _complete(port: int, model: str, prompt: str, tokens: int, watch: Watch | None) -> int:
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.readline()
        if watch:
            watch.begin()
        # The rest as a whole: a client that parses each event would take the core from the engine.
        text += answer.read()
        if watch:
            watch.end()
    except (OSError, http.client.HTTPException) as error:
        if watch:
            watch.fail()
        raise BenchError(f"no answer from port {port}: {error!r}") from error
    finally:
        connection.close()
    events = text.decode().strip().split("\n\n")
    if answer.status != http.HTTPStatus.OK or events[-1] != "data: [DONE]":
        raise BenchError(f"the answer had status {answer.status}: {events[-1][:200]}")
    usage = json.loads(events[-2].removeprefix("data: "))["usage"]
    completed: int = usage["completion_tokens"]
    return completed
