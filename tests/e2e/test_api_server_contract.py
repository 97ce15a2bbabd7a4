"""The contract against a real API server, so that the fake of the integration tests cannot lie."""

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.cluster.contract import ApiServerContract, Cluster

from specfleet.api.crd import NAME, crd
from specfleet.api.kinds import Kind
from specfleet.cluster.connection import load_connection
from specfleet.cluster.kubernetes_client import KubernetesClient
from specfleet.controller.crd_check import CUSTOM_RESOURCE_DEFINITION, UnusableCrd, check_crd

REPOSITORY = Path(__file__).resolve().parents[2]
NAMESPACE = Kind("", "v1", "Namespace", "namespaces")


@pytest.fixture(scope="module")
def kubeconfig() -> Path:
    given = os.environ.get("SPECFLEET_KUBECONFIG")
    if given:
        return Path(given)
    command = [sys.executable, str(REPOSITORY / "dev" / "cluster" / "cluster.py"), "kubeconfig"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(await load_connection(kubeconfig)) as running:
        yield running


async def install_crd(client: KubernetesClient) -> None:
    """Put this version's CRD in, and wait until the start-up check of the operator is content."""
    body = crd()
    body["metadata"] |= {"namespace": "", "name": NAME}
    # As helm, so that the chart can be installed over it without a conflict of managers.
    await client.apply(CUSTOM_RESOURCE_DEFINITION, body, manager="helm")
    async with asyncio.timeout(30):
        while True:
            try:
                return await check_crd(client, None)
            except UnusableCrd:
                await asyncio.sleep(0.2)


class TestRealServer(ApiServerContract):
    @pytest.fixture
    async def cluster(self, client: KubernetesClient) -> AsyncIterator[Cluster]:
        await install_crd(client)
        name = f"contract-{uuid.uuid4().hex[:8]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": ""}}
        await client.apply(NAMESPACE, body, manager="specfleet-tests")
        yield Cluster(client, name)
        await client.delete(NAMESPACE, "", name)
