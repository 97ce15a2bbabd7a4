"""The whole operator, kopf included, against the API server in this process: start, events, faults, stop."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from kubernetes.aio.client import Configuration as Connection
from tests.integration.controller.builders import a_configuration, a_resource
from tests.integration.fake_api import FakeServer
from tests.integration.fake_api.server import CRD

from specfleet.api.crd import crd
from specfleet.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    SERVICE,
    SPECULATIVE_DEPLOYMENT,
    Kind,
)
from specfleet.cluster.lease import LEASE, LeaseLost
from specfleet.cluster.work_queue import Backoff
from specfleet.controller.process import OperatorProcess
from specfleet.controller.tuning_pass import TuningPass

RUNBOOK = Path(__file__).resolve().parents[3] / "docs" / "runbook.md"
DEADLINE_SECONDS = 20.0
WATCHES = 5  # resources, and four kinds of children
ERRORS = "specfleet_operator_reconcile_errors_total"
RECONCILES = "specfleet_operator_reconcile_seconds_count"
RESOURCES = "specfleet_operator_resources"
SILENT = "specfleet_operator_watch_silent_seconds"


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as running:
        body = crd()
        name = body["metadata"]["name"]
        running.store.create(CRD, body)
        running.store.set_status(CRD, "", name, {"conditions": [{"type": "Established", "status": "True"}]})
        yield running


@asynccontextmanager
async def running(
    server: FakeServer, **changes: object
) -> AsyncIterator[tuple[OperatorProcess, asyncio.Task[int]]]:
    """Run an operator; stop it at the end unless the test has."""
    operator = an_operator(server, **changes)
    task = asyncio.create_task(operator.run())
    try:
        yield operator, task
    finally:
        operator.stop()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), DEADLINE_SECONDS)


def an_operator(server: FakeServer, **changes: object) -> OperatorProcess:
    async def connect() -> Connection:
        return server.connection

    return OperatorProcess(
        a_configuration(**changes), connect, namespace="specfleet", identity="one", lost=lambda error: None
    )


async def eventually(holds: Callable[[], bool], *, seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until it holds; the event loop runs in between."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is awaited is spread over many objects
            await asyncio.sleep(0.02)


def deployments(server: FakeServer, namespace: str = "llm") -> list[str]:
    return [item["metadata"]["name"] for item in server.store.list(DEPLOYMENT, namespace)]


async def test_a_resource_that_exists_before_the_start_gets_its_children(server: FakeServer) -> None:
    server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    async with running(server):
        await eventually(lambda: deployments(server) == ["chat-main-active"])


async def test_a_resource_that_comes_later_gets_its_children_and_loses_them_when_it_goes(
    server: FakeServer,
) -> None:
    async with running(server):
        await eventually(lambda: server.calls["GET", "deployments"] >= 2)
        server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
        await eventually(lambda: deployments(server) == ["chat-main-active"])

        server.store.delete(SPECULATIVE_DEPLOYMENT, "llm", "chat")
        await eventually(lambda: deployments(server) == [])


async def test_a_resource_made_again_does_not_wait_out_the_back_off_of_the_deleted_one(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after many failures: longer than the test would wait.
    monkeypatch.setattr(Backoff, "seconds", lambda self, failures, spread: 2 * DEADLINE_SECONDS)
    server.faults.add(500, verb="PATCH", path="/deployments/")
    async with running(server) as (operator, _):
        server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
        registry = operator.figures.registry
        await eventually(lambda: registry.get_sample_value(ERRORS, {"error": "Unavailable"}) == 1)

        server.store.delete(SPECULATIVE_DEPLOYMENT, "llm", "chat")
        server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
        await eventually(lambda: deployments(server) == ["chat-main-active"])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (DEPLOYMENT, "chat-main-active"),
        (SERVICE, "chat-main"),
        (CONFIG_MAP, "chat-main-active-schedule"),
        (DISRUPTION_BUDGET, "chat-main"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
async def test_a_child_deleted_by_hand_comes_back(server: FakeServer, kind: Kind, name: str) -> None:
    server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    def uid() -> str | None:
        found = [item["metadata"] for item in server.store.list(kind, "llm")]
        return next((one["uid"] for one in found if one["name"] == name), None)

    async with running(server) as (operator, _):

        def reconciles() -> float:
            return operator.figures.registry.get_sample_value(RECONCILES) or 0

        # The second is for the events of the children's creation.
        await eventually(lambda: uid() is not None and reconciles() >= 2)
        before = uid()
        server.store.delete(kind, "llm", name)

        await eventually(lambda: uid() not in (None, before))


async def test_an_object_whose_label_names_nothing_asks_for_nothing(server: FakeServer) -> None:
    labels = {"app.kubernetes.io/managed-by": "specfleet", "specfleet.dev/deployment": ""}
    server.store.create(CONFIG_MAP, {"metadata": {"name": "stray", "namespace": "llm", "labels": labels}})

    async with running(server) as (operator, _):
        registry = operator.figures.registry
        await eventually(lambda: server.watchers == WATCHES)
        server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
        # The second is for the events of the children, which come after the stray's.
        await eventually(lambda: (registry.get_sample_value(RECONCILES) or 0) >= 2)

        assert registry.get_sample_value(RESOURCES) == 1


async def test_events_go_on_after_the_watch_was_told_that_it_is_too_old(server: FakeServer) -> None:
    async with running(server):
        await eventually(lambda: server.watchers == WATCHES)
        server.end_watches(expired=True)
        server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())

        await eventually(lambda: deployments(server) == ["chat-main-active"])


async def test_a_lost_event_is_made_good_by_the_resync(server: FakeServer) -> None:
    async with running(server, resyncSeconds=1):
        await eventually(lambda: server.watchers == WATCHES)
        server.watch_faults.lose = 1
        server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())

        await eventually(lambda: deployments(server) == ["chat-main-active"])


async def test_a_stalled_watch_is_made_good_by_the_resync_and_noticed(server: FakeServer) -> None:
    async with running(server, resyncSeconds=1) as (operator, _):
        await eventually(lambda: server.watchers == WATCHES)
        server.watch_faults.stalled = True
        server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())

        await eventually(lambda: deployments(server) == ["chat-main-active"])
        await eventually(lambda: operator.figures.registry.get_sample_value(SILENT) != 0.0)
        server.watch_faults.stalled = False
        await eventually(lambda: operator.figures.registry.get_sample_value(SILENT) == 0.0)


async def test_events_that_come_twice_change_nothing(server: FakeServer) -> None:
    async with running(server):
        await eventually(lambda: server.watchers == WATCHES)
        server.watch_faults.duplicate = 10
        server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())

        await eventually(lambda: server.calls["PATCH", "speculativedeployments"] >= 1)
        assert deployments(server) == ["chat-main-active"]


async def test_faults_of_the_api_server_delay_and_do_not_end_the_operator(server: FakeServer) -> None:
    server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    server.faults.add(500, verb="PATCH", path="/deployments/")
    server.faults.add(429, verb="GET", path="/services")
    server.faults.add(409, verb="PATCH", path="/configmaps/")

    async with running(server) as (_, task):
        await eventually(lambda: deployments(server) == ["chat-main-active"])
        await eventually(lambda: server.calls["PATCH", "speculativedeployments"] >= 1)
        assert not task.done()
    assert server.faults.waiting == []


async def test_only_the_namespaces_of_the_configuration_are_served(server: FakeServer) -> None:
    server.store.create(SPECULATIVE_DEPLOYMENT, a_resource(namespace="ours"))
    server.store.create(SPECULATIVE_DEPLOYMENT, a_resource(namespace="theirs"))

    async with running(server, watchNamespaces=["ours"], resyncSeconds=1):
        await eventually(lambda: deployments(server, "ours") == ["chat-main-active"])
        await eventually(lambda: server.calls["GET", "speculativedeployments"] >= 4)

    assert deployments(server, "theirs") == []


async def test_a_graceful_stop_exits_with_0_and_frees_the_lease(server: FakeServer) -> None:
    async with running(server) as (operator, task):
        await eventually(lambda: server.watchers == WATCHES)
        operator.stop()
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await task == 0

    assert server.store.get(LEASE, "specfleet", "specfleet-operator")["spec"]["holderIdentity"] == ""


async def test_a_standby_waits_without_touching_anything(server: FakeServer) -> None:
    server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    server.store.create(
        LEASE,
        {
            "metadata": {"name": "specfleet-operator", "namespace": "specfleet"},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 4},
        },
    )

    async with running(server, leaderElection={"retrySeconds": 0.05}) as (operator, task):
        await eventually(lambda: server.calls["GET", "leases"] >= 3)
        operator.stop()
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await task == 0

    assert server.writes() == 0


@pytest.mark.fault("nolar/kopf#1266")
async def test_a_stolen_lease_ends_the_operator(server: FakeServer) -> None:
    lost: list[LeaseLost] = []
    async with running(server, leaderElection={"retrySeconds": 0.05}) as (operator, task):
        operator._lost = lost.append
        await eventually(lambda: server.watchers == WATCHES)
        server.store.merge_patch(
            LEASE, "specfleet", "specfleet-operator", {"spec": {"holderIdentity": "thief"}}
        )

        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await task == 1

    assert len(lost) == 1
    assert server.store.get(LEASE, "specfleet", "specfleet-operator")["spec"]["holderIdentity"] == "thief"


async def test_a_missing_crd_ends_the_start_with_1_and_says_what_to_do(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.store.delete(CRD, "", "speculativedeployments.specfleet.dev")

    assert await an_operator(server).run() == 1

    advice = "specfleet crds | kubectl apply --server-side --field-manager=helm --force-conflicts -f -"
    assert advice in caplog.text


async def test_an_older_crd_ends_the_start_with_1(server: FakeServer) -> None:
    server.store.merge_patch(
        CRD,
        "",
        "speculativedeployments.specfleet.dev",
        {"metadata": {"annotations": {"specfleet.dev/schema-hash": "older"}}},
    )

    assert await an_operator(server).run() == 1


async def test_health_and_metrics_are_served_while_it_runs(server: FakeServer) -> None:
    server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    async with running(server) as (operator, _), aiohttp.ClientSession() as session:
        await eventually(lambda: deployments(server) == ["chat-main-active"])
        await eventually(lambda: server.calls["PATCH", "speculativedeployments"] >= 1)

        port = next(address[1] for address in operator.health.addresses if address[0] == "0.0.0.0")
        answers = {}
        for path in ("healthz", "readyz", "metrics"):
            async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                answers[path] = (answer.status, await answer.text())

    assert answers["healthz"][0] == answers["readyz"][0] == 200
    assert 'specfleet_operator_applied_objects_total{kind="Deployment"} 1.0' in answers["metrics"][1]
    assert "specfleet_operator_leading 1.0" in answers["metrics"][1]


async def test_a_tuning_pass_that_hangs_fails_the_liveness_probe(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TuningPass, "running_seconds", property(lambda self: 301.0))
    async with running(server) as (operator, _), aiohttp.ClientSession() as session:
        await eventually(lambda: server.watchers == WATCHES)

        port = next(address[1] for address in operator.health.addresses if address[0] == "0.0.0.0")
        async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
            said = answer.status, await answer.text()

    assert said == (503, "a tuning pass has run for 301 s\n")


async def test_the_runbook_names_every_metric_of_the_operator(server: FakeServer) -> None:
    async with running(server) as (operator, _):
        await eventually(lambda: server.watchers == WATCHES)
        families = list(operator.figures.registry.collect())

    named = set(re.findall(r"^\| `(\w+)` ", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE))
    exported = {family.name + "_total" * (family.type == "counter") for family in families}
    assert named == {name for name in exported if name.startswith("specfleet_operator_")}


async def test_the_watch_asks_the_server_for_managed_deployments_only(server: FakeServer) -> None:
    async with running(server):
        await eventually(lambda: server.watchers == WATCHES)

    assert server.selectors["deployments"] == "app.kubernetes.io/managed-by=specfleet"
