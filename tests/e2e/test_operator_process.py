"""The operator's process against a real API server, confined to namespaces of its own. No image is needed.

A release that watches the whole cluster would do the work of the operator under test, so it stops meanwhile.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kubernetes.aio.client import Configuration as Connection
from tests.e2e.support import RELEASE, SYSTEM_NAMESPACE, Kube, Release, wait_for
from tests.e2e.test_api_server_contract import NAMESPACE, client, install_crd, kubeconfig
from tests.integration.controller.builders import a_configuration, a_resource

from specfleet.api.kinds import DEPLOYMENT, SERVICE, SPECULATIVE_DEPLOYMENT, Object
from specfleet.cluster.connection import load_connection
from specfleet.cluster.errors import NotFound
from specfleet.cluster.kubernetes_client import KubernetesClient
from specfleet.cluster.lease import LEASE
from specfleet.controller.process import OperatorProcess

__all__ = ["client", "kubeconfig"]

pytestmark = pytest.mark.timeout(240)

DEADLINE_SECONDS = 60.0
FLEETS = 100
QUICK = {"scrapeIntervalSeconds": 3}
COLD_SECONDS = 60.0  # the figure


@pytest.fixture
def no_other_operator(kube: Kube) -> Iterator[None]:
    if kube.get("deployment", SYSTEM_NAMESPACE, f"{RELEASE}-operator") is None:
        yield
        return
    release = Release(kube, images={})
    with release.without_operator():
        yield
    wait_for("the operator leads", release.leads, seconds=90)


@pytest.fixture
async def namespace(client: KubernetesClient) -> AsyncIterator[str]:
    await install_crd(client)
    name = f"operator-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": ""}}
    await client.apply(NAMESPACE, body, manager="specfleet-tests")
    yield name
    await client.delete(NAMESPACE, "", name)


@asynccontextmanager
async def running(kubeconfig: Path, namespace: str, **changes: object) -> AsyncIterator[OperatorProcess]:
    async def connect() -> Connection:
        return await load_connection(kubeconfig)

    operator = OperatorProcess(
        a_configuration(watchNamespaces=[namespace], **changes),
        connect,
        namespace=namespace,
        identity=uuid.uuid4().hex,
        lost=lambda error: None,
    )
    task = asyncio.create_task(operator.run())
    try:
        yield operator
    finally:
        operator.stop()
        assert await asyncio.wait_for(task, DEADLINE_SECONDS) == 0


async def eventually(
    holds: Callable[[], Awaitable[object]], *, seconds: float = DEADLINE_SECONDS, every: float = 0.2
) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - what is awaited happens in another process
            await asyncio.sleep(every)


async def ready(client: KubernetesClient, namespace: str) -> list[str]:
    found = await client.list(SPECULATIVE_DEPLOYMENT, namespace, {})
    return [item["metadata"]["name"] for item in found if _is_ready(item)]


def _is_ready(item: Object) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any((entry["type"], entry["status"]) == ("Ready", "True") for entry in conditions)


@pytest.mark.alone
@pytest.mark.usefixtures("no_other_operator")
async def test_a_fleet_comes_changes_and_goes(
    client: KubernetesClient, kubeconfig: Path, namespace: str
) -> None:
    async def is_ready() -> bool:
        return await ready(client, namespace) == ["chat"]

    async def has_one_deployment() -> bool:
        return len(await client.list(DEPLOYMENT, namespace, {})) == 1

    async def is_gone() -> bool:
        return not (await client.list(SERVICE, namespace, {}) or await client.list(DEPLOYMENT, namespace, {}))

    async with running(kubeconfig, namespace):
        body = a_resource(namespace=namespace, pools=("main", "batch"), replicas=0)
        await client.apply(SPECULATIVE_DEPLOYMENT, body, manager="user")
        await eventually(is_ready)

        body["spec"]["pools"] = body["spec"]["pools"][:1]
        await client.apply(SPECULATIVE_DEPLOYMENT, body, manager="user")
        await eventually(has_one_deployment)

        await client.delete(SPECULATIVE_DEPLOYMENT, namespace, "chat")
        await eventually(is_gone)


@pytest.mark.alone
@pytest.mark.usefixtures("no_other_operator")
async def test_a_restarted_operator_changes_no_object(
    client: KubernetesClient, kubeconfig: Path, namespace: str
) -> None:
    async def is_ready() -> bool:
        return await ready(client, namespace) == ["chat"]

    await client.apply(SPECULATIVE_DEPLOYMENT, a_resource(namespace=namespace, replicas=0), manager="user")
    async with running(kubeconfig, namespace, tuning=QUICK) as operator:
        await eventually(is_ready)
        await has_worked(operator)
        before = await settled_versions(client, namespace)

    async with running(kubeconfig, namespace, tuning=QUICK) as operator:
        await has_worked(operator)

    assert await versions(client, namespace) == before


async def has_worked(operator: OperatorProcess) -> None:
    """Wait for a reconcile, and for a pass of the tuner that began after this call."""
    value = operator.figures.registry.get_sample_value

    def passes() -> float:
        return value("specfleet_operator_tuning_pass_seconds_count") or 0.0

    enough = passes() + 2

    async def both() -> bool:
        return bool(value("specfleet_operator_reconcile_seconds_count")) and passes() >= enough

    await eventually(both)


async def settled_versions(client: KubernetesClient, namespace: str) -> dict[tuple[str, str], str]:
    """Wait until nothing is written for some seconds: Kubernetes writes the Deployment's status later."""
    seen: dict[tuple[str, str], str] = {}
    async with asyncio.timeout(DEADLINE_SECONDS):
        while seen != (now := await versions(client, namespace)):
            seen = now
            await asyncio.sleep(5)
    return seen


async def versions(client: KubernetesClient, namespace: str) -> dict[tuple[str, str], str]:
    return {
        (kind.kind, item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for kind in (SPECULATIVE_DEPLOYMENT, DEPLOYMENT, SERVICE)
        for item in await client.list(kind, namespace, {})
    }


@pytest.mark.alone
@pytest.mark.usefixtures("no_other_operator")
async def test_a_hundred_fleets_without_pods_reconcile_from_cold_within_a_minute(
    client: KubernetesClient, kubeconfig: Path, namespace: str
) -> None:
    for number in range(FLEETS):
        body = a_resource(f"fleet-{number}", namespace=namespace, replicas=0)
        await client.apply(SPECULATIVE_DEPLOYMENT, body, manager="user")

    async def all_ready() -> bool:
        return len(await ready(client, namespace)) == FLEETS

    async with running(kubeconfig, namespace):
        started = time.monotonic()
        await eventually(all_ready, seconds=COLD_SECONDS, every=1)
        print(f"cold: {FLEETS} deployments in {time.monotonic() - started:.0f} s")


async def test_an_operator_that_leads_no_more_frees_its_lease(
    client: KubernetesClient, kubeconfig: Path, namespace: str
) -> None:
    async with running(kubeconfig, namespace):
        await eventually(lambda: holder(client, namespace))

    assert await holder(client, namespace) == ""


async def holder(client: KubernetesClient, namespace: str) -> str:
    try:
        return str(
            (await client.get(LEASE, namespace, "specfleet-operator"))["spec"].get("holderIdentity") or ""
        )
    except NotFound:
        return ""
