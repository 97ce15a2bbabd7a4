"""A simulated engine behind its real HTTP server, in the test's own event loop or in a process of its own."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from specfleet_serving.arguments import Settings
from specfleet_serving.core import Core, Limits, Tokenizer
from specfleet_serving.draft_summary import Level
from specfleet_serving.metrics import Metrics
from specfleet_serving.server import build_app
from specfleet_serving.service import Service
from specfleet_simulated.core import UNSUPPORTED, SimulatedCore
from specfleet_simulated.cost import CostModel
from specfleet_simulated.script import Acceptance
from specfleet_simulated.tokenizer import SimulatedTokenizer

PATIENCE_SECONDS = 20
SOURCES = Path(__file__).parents[3] / "engine_image"


def a_core(step_milliseconds: float = 1.0, max_num_seqs: int = 8, kv_tokens: int = 2048) -> SimulatedCore:
    return SimulatedCore(
        Limits(1024, max_num_seqs, 5, "ngram", kv_tokens, 16, UNSUPPORTED),
        CostModel(step_milliseconds / 1000, 64),
        Acceptance(free=0.3, repetitive=0.9, min_match=2),
        SimulatedTokenizer(),
    )


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition that only asking can tell holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await holds():  # noqa: ASYNC110  the other side has no event to wait for
            await asyncio.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Running:
    """An engine that serves "m"."""

    url: str
    client: httpx.AsyncClient
    service: Service

    async def metric(self, name: str, **labels: str) -> float | None:
        """Read one series from ``/metrics``."""
        return metric_in((await self.client.get("/metrics")).text, name, **labels)

    async def until(self, name: str, expected: float, **labels: str) -> None:
        """Wait until a series has a value."""

        async def has_it() -> bool:
            return await self.metric(name, **labels) == expected

        await until(has_it)

    async def status(self, path: str) -> int:
        """Ask a probe."""
        return (await self.client.get(path)).status_code


def metric_in(page: str, name: str, **labels: str) -> float | None:
    """Read one series of a metrics page, whatever further labels it has. None: it is not there."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name and all(one in series for one in wanted):
            return float(value)
    return None


@contextlib.asynccontextmanager
async def a_running_engine(
    core: Core | None = None,
    initial_depth: int = 2,
    max_queued_requests: int = 64,
    max_body_bytes: int = 64 * 1024,
    schedule_file: Path | None = None,
    stall_seconds: float = 60.0,
    answer_metrics: Level = "none",
    tokenizer: Tokenizer | None = None,
) -> AsyncIterator[Running]:
    """Serve on a free port of the loopback until the block is left."""
    core = core or a_core()
    settings = Settings(
        "m",
        initial_depth=initial_depth,
        max_queued_requests=max_queued_requests,
        max_body_bytes=max_body_bytes,
        schedule_file=schedule_file,
        stall_seconds=stall_seconds,
        answer_metrics=answer_metrics,
    )
    service = Service(core, tokenizer or SimulatedTokenizer(), settings, Metrics("m", core.limits))
    config = uvicorn.Config(build_app(service), host="127.0.0.1", port=0, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    service.start()
    # Not serve(): that would take the signals of the test process.
    serving = asyncio.ensure_future(server._serve())
    try:

        async def is_up() -> bool:
            return server.started and service.loop.warm

        await until(is_up)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
            yield Running(url, client, service)
    finally:
        await asyncio.to_thread(service.stop)
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def an_engine_process(
    *flags: str,
) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    """Run ``python -m specfleet_simulated`` until the block is left; wait until it is ready."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specfleet_simulated", "--served-model-name", "m", "--host", "127.0.0.1"),
        *("--port", str(port), "--method", "ngram", "--max-depth", "5", *flags),
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
            await until(lambda: _is_ready(client))
            yield process, client
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.communicate()


async def _is_ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/ready")).status_code == 200
    except httpx.TransportError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
