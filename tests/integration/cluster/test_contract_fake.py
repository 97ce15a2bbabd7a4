"""The contract against the API server in this process."""

from collections.abc import AsyncIterator

import pytest
from tests.integration.cluster.contract import ApiServerContract, Cluster
from tests.integration.fake_api import FakeServer

from specfleet.cluster.kubernetes_client import KubernetesClient


class TestFakeServer(ApiServerContract):
    @pytest.fixture
    async def cluster(self) -> AsyncIterator[Cluster]:
        async with FakeServer() as server, KubernetesClient(server.connection) as client:
            yield Cluster(client, "llm")
