"""The operator's HTTP server: ``/healthz``, ``/readyz``, ``/metrics``. The first thing that starts.

Not kopf's own endpoint: that one answers 200 as long as its task lives, and starts too late for a standby.
A check gives the reason why it fails, or None. An unreachable API server fails readiness only: a restart
would not cure it.
"""

from collections.abc import Callable
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

Check = Callable[[], str | None]


class HealthServer:
    """Use as ``async with``. Checks may be added while it runs."""

    def __init__(self, registry: CollectorRegistry, *, port: int, host: str | None = None) -> None:
        self._registry = registry
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None
        self.liveness: list[Check] = []
        self.readiness: list[Check] = []

    async def __aenter__(self) -> "HealthServer":
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        # Idle connections would delay the stop: probes and Prometheus come back by themselves.
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=0.0, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def addresses(self) -> list[tuple[Any, ...]]:
        """Host and port of each socket. With port 0 every address family gets a port of its own."""
        assert self._runner is not None
        return self._runner.addresses

    async def _healthz(self, _: web.Request) -> web.Response:
        return _verdict(self.liveness)

    async def _readyz(self, _: web.Request) -> web.Response:
        return _verdict(self.readiness)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


def _verdict(checks: list[Check]) -> web.Response:
    reasons = [reason for check in checks if (reason := check()) is not None]
    return web.Response(text="\n".join(reasons or ["ok"]) + "\n", status=503 if reasons else 200)
