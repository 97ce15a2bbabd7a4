"""The engine's process: starts the service, answers signals, drains, ends with an exit status."""

import asyncio
import logging
import signal
from types import FrameType

import uvicorn

from specfleet_serving.arguments import Settings
from specfleet_serving.core import Core, Tokenizer
from specfleet_serving.metrics import Metrics
from specfleet_serving.server import build_app
from specfleet_serving.service import Service

logger = logging.getLogger(__name__)

# What connections get to send their last bytes once every stream has ended.
CLOSING_SECONDS = 5
# Longer than clients keep an idle connection (httpx 5 s, aiohttp 15 s) and than load balancers do (60 s): the
# engine must not be the side that closes it, as a request that is under way just then fails. With uvicorn's
# 5 s that hit one request of a demo.
KEEP_ALIVE_SECONDS = 75
WATCH_SECONDS = 0.5


def serve(core: Core, tokenizer: Tokenizer, settings: Settings) -> int:
    """Serve a core until SIGTERM, and give the exit status.

    0 after a drain, also one that ran out of time; 1 if the model did not answer, at the start or after steps
    that failed, or the port could not be opened.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    return asyncio.run(_serve(core, tokenizer, settings))


def http_config(service: Service) -> uvicorn.Config:
    """Say how the service is served over HTTP."""
    return uvicorn.Config(
        build_app(service),
        host=service.settings.host,
        port=service.settings.port,
        access_log=False,
        log_config=None,
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )


class _Server(uvicorn.Server):
    """uvicorn, with our own answer to signals: drain first, then exit 0 instead of dying of the signal."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._stop = stop
        self._event_loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        logger.info("%s: draining", signal.Signals(sig).name)
        self._event_loop.call_soon_threadsafe(self._stop.set)


async def _serve(core: Core, tokenizer: Tokenizer, settings: Settings) -> int:
    service = Service(core, tokenizer, settings, Metrics(settings.served_model_name, core.limits))
    stop = asyncio.Event()
    server = _Server(http_config(service), stop)
    service.start()
    ending = asyncio.ensure_future(_end_when_asked(service, server, stop))
    try:
        await server.serve()
    finally:
        ending.cancel()
        await asyncio.to_thread(service.stop)
    return 0 if service.draining else 1


async def _end_when_asked(service: Service, server: uvicorn.Server, stop: asyncio.Event) -> None:
    while not stop.is_set():
        if not service.loop.alive:
            # A core that does not answer has nothing to drain, and the log has said why.
            server.should_exit = True
            return
        try:
            await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
        except TimeoutError:
            continue
    service.draining = True
    try:
        await asyncio.wait_for(service.streams.wait_until_idle(), service.settings.drain_seconds)
    except TimeoutError:
        logger.warning("%d requests did not finish in time", service.streams.count)
        await asyncio.to_thread(service.loop.stop)
    server.should_exit = True
