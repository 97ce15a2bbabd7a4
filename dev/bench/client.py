"""The load: so many requests at once over HTTP, streamed, each with a fixed number of tokens."""

import http.client
import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dev.bench.errors import BenchError

__all__ = ["Counters", "Slice", "counters", "drive"]

_SECONDS = 120.0
_COUNTER = re.compile(
    r'^(specfleet_step(?:s|_seconds)_total)\{[^}]*depth="(\d+)"[^}]*\} (\S+)$', re.MULTILINE
)


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
    """Steps of our engine, and their seconds, by scheduled depth."""

    steps: dict[int, float]
    seconds: dict[int, float]

    def step_seconds_since(self, earlier: "Counters", depth: int) -> float:
        """Mean time of the steps at ``depth`` since ``earlier``. Raises BenchError if there were none."""
        steps = self.steps.get(depth, 0.0) - earlier.steps.get(depth, 0.0)
        if steps <= 0:
            raise BenchError(f"the engine ran no step at depth {depth}: did it take the schedule?")
        return (self.seconds[depth] - earlier.seconds.get(depth, 0.0)) / steps


def drive(port: int, model: str, prompts: Sequence[str], tokens: int) -> Slice:
    """Send all prompts at once and wait for all answers. Raises BenchError for a wrong number of tokens."""
    with ThreadPoolExecutor(len(prompts)) as users:
        began = time.monotonic()
        answered = list(users.map(lambda prompt: _complete(port, model, prompt, tokens), prompts))
        seconds = time.monotonic() - began
    if answered != [tokens] * len(prompts):
        raise BenchError(f"asked for {tokens} tokens each, got {answered}")
    return Slice(sum(answered), seconds)


def counters(port: int) -> Counters:
    """Read our engine's counters of steps."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found: dict[str, dict[int, float]] = {"specfleet_steps_total": {}, "specfleet_step_seconds_total": {}}
    for name, depth, value in _COUNTER.findall(text):
        found[name][int(depth)] = float(value)
    return Counters(found["specfleet_steps_total"], found["specfleet_step_seconds_total"])


def _complete(port: int, model: str, prompt: str, tokens: int) -> int:
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
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    # Read as a whole: a client that parses each event would take the core from the engine.
    events = answer.read().decode().strip().split("\n\n")
    connection.close()
    if answer.status != http.HTTPStatus.OK or events[-1] != "data: [DONE]":
        raise BenchError(f"the answer had status {answer.status}: {events[-1][:200]}")
    usage = json.loads(events[-2].removeprefix("data: "))["usage"]
    completed: int = usage["completion_tokens"]
    return completed
