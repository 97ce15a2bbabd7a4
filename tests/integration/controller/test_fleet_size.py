"""Many resources at once: from cold to reconciled in little time, and then silence. kopf included."""

import asyncio
import time

from tests.integration.controller.builders import a_resource
from tests.integration.controller.test_process import eventually, running, server
from tests.integration.fake_api import FakeServer

from specfleet.api.kinds import DEPLOYMENT, SPECULATIVE_DEPLOYMENT

__all__ = ["server"]

FLEETS = 100
# The figure of the issue for a real API server; here the server shares the process, and tests the cores.
COLD_SECONDS = 60.0


def all_told(server: FakeServer) -> bool:
    fleets = server.store.list(SPECULATIVE_DEPLOYMENT, None)
    return all(
        condition["status"] == "True"
        for fleet in fleets
        for condition in fleet.get("status", {}).get("conditions", [{"type": "Ready", "status": "False"}])
        if condition["type"] == "Ready"
    )


async def test_a_hundred_fleets_without_pods_are_reconciled_from_cold_and_then_nothing_is_written(
    server: FakeServer,
) -> None:
    for number in range(FLEETS):
        namespace = f"team-{number % 5}"
        server.store.create(
            SPECULATIVE_DEPLOYMENT, a_resource(f"fleet-{number}", namespace=namespace, replicas=0)
        )
    started = time.monotonic()

    async with running(server, resyncSeconds=10, tuning={"scrapeIntervalSeconds": 600}):
        await eventually(lambda: len(server.store.list(DEPLOYMENT, None)) == FLEETS, seconds=COLD_SECONDS)
        for deployment in server.store.list(DEPLOYMENT, None):
            metadata = deployment["metadata"]
            server.store.set_status(
                DEPLOYMENT,
                metadata["namespace"],
                metadata["name"],
                {"observedGeneration": metadata["generation"]},
            )
        await eventually(lambda: all_told(server), seconds=COLD_SECONDS)
        assert time.monotonic() - started < COLD_SECONDS

        await settled(server)
        writes, reads = server.writes(besides=("leases", "events")), sum(server.calls.values())
        # A look is seven calls: every key has looked again by then.
        await eventually(lambda: sum(server.calls.values()) > reads + 8 * FLEETS, seconds=COLD_SECONDS)
        assert server.writes(besides=("leases", "events")) == writes


async def settled(server: FakeServer) -> None:
    """Wait until a second passes without a write."""
    async with asyncio.timeout(COLD_SECONDS):
        before = -1
        while before != (before := server.writes(besides=("leases", "events"))):  # noqa: ASYNC110
            await asyncio.sleep(1)
