"""What probes and Prometheus see over HTTP."""

import aiohttp
from prometheus_client import CollectorRegistry, Counter

from specfleet.controller.health import HealthServer


async def ask(server: HealthServer, path: str) -> tuple[int, str]:
    port = next(address[1] for address in server.addresses if address[0] == "127.0.0.1")
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/{path}") as answer:
        return answer.status, await answer.text()


async def test_a_failing_check_answers_503_with_its_reason() -> None:
    reasons: list[str | None] = [None]
    async with HealthServer(CollectorRegistry(), port=0, host="127.0.0.1") as server:
        server.liveness.append(lambda: reasons[0])

        assert await ask(server, "healthz") == (200, "ok\n")
        reasons[0] = "no reconcile has finished for 301 s"
        assert await ask(server, "healthz") == (503, "no reconcile has finished for 301 s\n")


async def test_readiness_and_liveness_are_two_questions() -> None:
    async with HealthServer(CollectorRegistry(), port=0, host="127.0.0.1") as server:
        server.readiness.append(lambda: "no answer from the API server for 11 s")

        assert (await ask(server, "readyz"))[0] == 503
        assert (await ask(server, "healthz"))[0] == 200


async def test_metrics_are_those_of_the_given_registry() -> None:
    registry = CollectorRegistry()
    Counter("example_total", "An example.", registry=registry).inc(3)
    async with HealthServer(registry, port=0, host="127.0.0.1") as server:
        status, text = await ask(server, "metrics")

    assert status == 200
    assert "example_total 3.0" in text
