"""What the adapter makes of an API server that does not do as it should."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration as Connection
from tests.integration.fake_api import FakeServer

from specfleet.api.crd import NAME
from specfleet.api.kinds import CONFIG_MAP, DEPLOYMENT
from specfleet.cluster import kubernetes_client
from specfleet.cluster.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
)
from specfleet.cluster.kubernetes_client import KubernetesClient
from specfleet.controller.crd_check import CUSTOM_RESOURCE_DEFINITION, UnusableCrd, check_crd

A_MAP = {"metadata": {"name": "one", "namespace": "llm"}, "data": {"key": "value"}}


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as running:
        yield running


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(server.connection, timeout_seconds=0.3) as running:
        yield running


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Invalid),
        (401, Forbidden),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Expired),
        (422, Invalid),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_each_status_is_one_error(
    server: FakeServer, client: KubernetesClient, status: int, error: type[ClusterError]
) -> None:
    server.faults.add(status)

    with pytest.raises(error, match=f"PATCH /api/v1/namespaces/llm/configmaps/one: {status}"):
        await client.apply(CONFIG_MAP, A_MAP, manager="specfleet")


async def test_a_server_that_does_not_answer_is_unavailable_in_time(
    server: FakeServer, client: KubernetesClient
) -> None:
    server.faults.add("timeout")

    async with asyncio.timeout(5):
        with pytest.raises(Unavailable, match="no answer within"):
            await client.get(CONFIG_MAP, "llm", "one")


async def test_a_closed_port_is_unavailable() -> None:
    async with KubernetesClient(Connection(host="http://127.0.0.1:9")) as client:
        with pytest.raises(Unavailable):
            await client.get(CONFIG_MAP, "llm", "one")


async def test_a_list_whose_pages_expire_is_started_again(
    server: FakeServer, client: KubernetesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_client, "PAGE_SIZE", 2)
    for number in range(5):
        server.store.create(CONFIG_MAP, {"metadata": {"name": f"map-{number}", "namespace": "llm"}})
    server.faults.add(410, path="configmaps", times=2)

    found = await client.list(CONFIG_MAP, "llm", {})

    assert [item["metadata"]["name"] for item in found] == [f"map-{number}" for number in range(5)]


async def test_a_list_that_expires_every_time_gives_up(server: FakeServer, client: KubernetesClient) -> None:
    server.faults.add(410, path="configmaps", times=10)

    with pytest.raises(Expired):
        await client.list(CONFIG_MAP, "llm", {})


async def test_proxies_of_the_environment_are_not_used(
    client: KubernetesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    await client.apply(CONFIG_MAP, A_MAP, manager="specfleet")


@contextlib.asynccontextmanager
async def answering(response: Callable[[], web.Response]) -> AsyncIterator[KubernetesClient]:
    """Give a client of a server that has one answer to everything."""

    async def answer(_: web.Request) -> web.Response:
        return response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with KubernetesClient(Connection(host=host)) as client:
        yield client
    await runner.cleanup()


async def test_an_error_names_reason_and_fields_and_repeats_no_value() -> None:
    body = {
        "kind": "Status",
        "reason": "Invalid",
        "message": 'env "SECRET" has value hunter2',
        "details": {"causes": [{"field": "spec.replicas", "message": "hunter2"}]},
    }

    async with answering(lambda: web.json_response(body, status=422)) as client:
        with pytest.raises(Invalid) as refused:
            await client.get(DEPLOYMENT, "llm", "chat")

    assert "422 Invalid (spec.replicas)" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ".spec.template.spec.affinity.nodeAffinty: field not declared in schema",
            ".spec.template.spec.affinity.nodeAffinty: field not declared in schema",
        ),
        (
            ".spec.template.spec.affinity: expected map, got &{[hunter2]}",
            ".spec.template.spec.affinity: expected map",
        ),
        (
            "errors:\n  .spec.a: field not declared in schema\n  .spec.b: expected string, got &{hunter2}",
            ".spec.a: field not declared in schema, .spec.b: expected string",
        ),
    ],
    ids=["unknown", "another-type", "several"],
)
async def test_an_object_that_does_not_fit_its_kind_is_told_with_the_fields_and_without_a_value(
    words: str, told: str
) -> None:
    """As API servers answer: a plain 500 (kubernetes/kubernetes#139253)."""
    what = "failed to create typed patch object (llm/chat; apps/v1, Kind=Deployment)"
    body = {"kind": "Status", "message": f"{what}: {words}", "code": 500}

    async with answering(lambda: web.json_response(body, status=500)) as client:
        with pytest.raises(Invalid) as refused:
            await client.apply(CONFIG_MAP, A_MAP, manager="specfleet")

    assert str(refused.value).endswith(f": 500 Invalid ({told})")


@pytest.mark.parametrize(
    "message",
    [
        # The forms of Kubernetes' quota admission and of its RBAC.
        'services "chat" is forbidden: exceeded quota: few, requested: services=1, used: services=2, '
        "limited: services=2",
        'configmaps "one" is forbidden: User "system:serviceaccount:ns:operator" cannot patch resource '
        '"configmaps" in API group "" in the namespace "llm"',
    ],
)
async def test_a_forbidden_call_says_what_forbids_it(message: str) -> None:
    body = {"kind": "Status", "reason": "Forbidden", "message": message, "details": {"name": "one"}}

    async with answering(lambda: web.json_response(body, status=403)) as client:
        with pytest.raises(Forbidden) as refused:
            await client.apply(CONFIG_MAP, A_MAP, manager="specfleet")

    assert str(refused.value).endswith(f": 403 Forbidden: {message}")


async def test_the_words_of_a_policy_are_one_line_and_no_novel() -> None:
    message = 'admission webhook "policy.test" denied the request:\n\n' + "no " * 1000
    body = {"kind": "Status", "reason": "Forbidden", "message": message}

    async with answering(lambda: web.json_response(body, status=403)) as client:
        with pytest.raises(Forbidden, match="denied the request: no no no") as refused:
            await client.get(CONFIG_MAP, "llm", "one")

    assert len(str(refused.value)) < 600


async def test_an_answer_that_is_no_object_is_unavailable() -> None:
    async with answering(lambda: web.Response(text="<html>welcome</html>")) as client:
        with pytest.raises(Unavailable, match="is this a Kubernetes API server"):
            await client.get(CONFIG_MAP, "llm", "one")


async def test_a_null_member_is_an_absent_one() -> None:
    """As API server 1.35 answers for a CRD in its first moments."""
    new_crd = {
        "metadata": {"name": NAME, "annotations": None},
        "spec": {"versions": [{"name": "v1alpha1", "served": True, "schema": None}]},
        "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None},
    }

    async with answering(lambda: web.json_response(new_crd)) as client:
        found = await client.get(CUSTOM_RESOURCE_DEFINITION, "", NAME)
        with pytest.raises(UnusableCrd, match="does not serve v1alpha1"):
            await check_crd(client, None)

    assert found == {
        "metadata": {"name": NAME},
        "spec": {"versions": [{"name": "v1alpha1", "served": True}]},
        "status": {"acceptedNames": {"plural": "", "kind": ""}},
    }
