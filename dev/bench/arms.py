"""The processes that take turns, and what a slice of each measures. All rest once they are ready."""

import json
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dev.bench.client import Slice, Watch, counters, drive
from dev.bench.errors import BenchError
from dev.bench.servers import Group, Server, free_port
from dev.bench.vllm_cpu import Vllm

__all__ = ["Engine", "Generator", "Peer", "start_engine", "start_twins", "start_vllm"]

_START_SECONDS = 60.0
# vLLM compiles at its first start.
_VLLM_START_SECONDS = 400.0
_SLICE_SECONDS = 120.0
_POLL_SECONDS = 0.1


class Peer:
    """One server of the OpenAI interface, at rest unless it measures."""

    def __init__(self, server: Group, model: Path) -> None:
        self.server = server
        self._model = model

    def measure(self, prompts: Sequence[str], tokens: int) -> dict[str, float]:
        """Let the process answer, and give tokens, seconds and their rate."""
        with self.server.working():
            done = self._answer(prompts, tokens)
        return {"tokens": done.tokens, "seconds": done.seconds, "rate": done.rate}

    def _answer(self, prompts: Sequence[str], tokens: int) -> Slice:
        return drive(self.server.port, self._model.name, prompts, tokens)


def start_vllm(
    vllm: Vllm, model: Path, dtype: str, cores: Sequence[int], logs: Path, ending: ExitStack
) -> Peer:
    """Start vLLM and wait for it."""
    port = free_port()
    command = vllm.command(model, dtype, port)
    server = Server("vllm", command, vllm.environment(cores), port, logs / "vllm.log")
    server.wait_ready("/health", _VLLM_START_SECONDS)
    ending.callback(server.end)
    server.rest()
    return Peer(server, model)


class Generator(Peer):
    """transformers' `generate`, and the memory's bandwidth."""

    @classmethod
    def start(cls, model: Path, dtype: str, logs: Path, ending: ExitStack) -> "Generator":
        """Start the process and wait for it."""
        port = free_port()
        command = [sys.executable, "-m", "dev.bench.generator", str(model), dtype, str(port)]
        server = Server("transformers", command, {}, port, logs / "transformers.log")
        server.wait_ready("/", _START_SECONDS)
        ending.callback(server.end)
        server.rest()
        return cls(server, model)

    def bytes_per_second(self) -> float:
        """What the memory streams now."""
        with self.server.working():
            return float(self._post("/stream", {})["bytes_per_second"])

    def _answer(self, prompts: Sequence[str], tokens: int) -> Slice:
        done = self._post("/generate", {"prompts": list(prompts), "tokens": tokens})
        return Slice(int(done["tokens"]), done["seconds"])

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, float]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.port}{path}", json.dumps(body).encode(), method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=_SLICE_SECONDS) as answer:
                found: dict[str, float] = json.loads(answer.read())
        except OSError as error:
            raise BenchError(f"no answer from {self.server.name} to {path}: {error!r}") from error
        return found


class Engine(Peer):
    """Our engine. With a proposer it follows a schedule file, which `set_depth` writes."""

    def __init__(self, server: Group, model: Path, schedule: Path) -> None:
        super().__init__(server, model)
        self._schedule = schedule
        self._version = 0
        self._depth = 0

    def set_depth(self, depth: int, limit: int) -> None:
        """Write a schedule with one depth; the engine takes it within a second of working."""
        if depth == self._depth:
            return
        self._version += 1
        self._depth = depth
        document = {
            "format": 1,
            "version": self._version,
            "fence": 1,
            "issuedAt": "2026-01-01T00:00:00Z",
            "maxDepth": limit,
            "table": [{"depth": depth}],
        }
        partial = self._schedule.with_suffix(".partial")
        partial.write_text(json.dumps(document), encoding="utf-8")
        partial.rename(self._schedule)
        with self.server.working():
            self._wait_for_version()

    def measure_steps(self, prompts: Sequence[str], tokens: int) -> dict[str, float]:
        """Measure, and add what the engine says of its steps while everybody decoded.

        ``step_seconds`` is the mean time of a step; ``target_share`` the part of the time that the target's
        forward pass and its verdicts took.
        """
        watch = Watch(lambda: counters(self.server.port, self._depth), len(prompts))
        with self.server.working():
            done = drive(self.server.port, self._model.name, prompts, tokens, watch)
        return {"tokens": done.tokens, "seconds": done.seconds, "rate": done.rate, **watch.steps()}

    def _wait_for_version(self) -> None:
        url = f"http://127.0.0.1:{self.server.port}/metrics"
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            with urllib.request.urlopen(url, timeout=5) as answer:
                lines = answer.read().decode().splitlines()
            found = [
                line
                for line in lines
                if line.startswith("specfleet_schedule_version") and 'fence="1"' in line
            ]
            if found and float(found[0].split()[-1]) == self._version:
                return
            time.sleep(_POLL_SECONDS)
        raise BenchError(f"{self.server.name} did not take schedule {self._version}")


def start_engine(
    name: str, model: Path, logs: Path, ending: ExitStack, flags: Sequence[str] = ()
) -> tuple[Engine, float]:
    """Start our engine; ``flags`` name its proposer. Give it and the seconds until it had answered."""
    port, schedule = free_port(), _schedule(name, logs)
    command = [sys.executable, "-m", "specfleet_engine", *_flags(model, port, schedule), *flags]
    server = Server(name, command, {}, port, logs / f"{name}.log")
    seconds = server.wait_ready("/ready", _START_SECONDS)
    ending.callback(server.end)
    server.rest()
    return Engine(server, model, schedule), seconds


def start_twins(
    flags: Mapping[str, Sequence[str]], model: Path, logs: Path, ending: ExitStack
) -> list[Engine]:
    """Start one engine for each name in ``flags``; their weights lie in the same memory (`twins`)."""
    ports = {name: free_port() for name in flags}
    schedules = {name: _schedule(name, logs) for name in flags}
    groups = logs / "twins.json"
    command = [sys.executable, "-m", "dev.bench.twins", str(groups)]
    command += [json.dumps([*_flags(model, ports[name], schedules[name]), *flags[name]]) for name in flags]
    server = Server("twins", command, {}, free_port(), logs / "twins.log")
    server.wait_ready("/ready", _START_SECONDS, [*ports.values()])
    ending.callback(server.end)
    leaders = json.loads(groups.read_text(encoding="utf-8"))
    engines = [
        Engine(Group(name, leader, ports[name]), model, schedules[name])
        for name, leader in zip(flags, leaders, strict=True)
    ]
    for engine in engines:
        engine.server.rest()
    return engines


def _schedule(name: str, logs: Path) -> Path:
    file = logs / f"{name}-schedule.json"
    file.unlink(missing_ok=True)
    return file


def _flags(model: Path, port: int, schedule: Path) -> list[str]:
    flags = ["--model", str(model), "--dtype", "bfloat16", "--served-model-name", model.name]
    flags += ["--host", "127.0.0.1", "--port", str(port), "--schedule-file", str(schedule)]
    return [*flags, "--max-model-len", "1024", "--max-num-seqs", "16", "--kv-cache-mib", "512"]
