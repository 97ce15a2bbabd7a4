"""Bad input on the real server: each is answered in words, at the place where the user looks."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml
from tests.e2e.support import (
    Kube,
    Release,
    complete,
    condition,
    engine_pods,
    simulated,
    wait_for,
    wait_ready,
)

from specfleet.api.crd import HASH_ANNOTATION, NAME
from specfleet.api.kinds import Kind, Object
from specfleet.cluster.errors import NotFound
from specfleet.controller.crd_check import UnusableCrd, check_crd

pytestmark = pytest.mark.timeout(600)

NOWHERE = "/models/nowhere"
MAX_REPLICAS = 64  # the chart's default for limits.maxReplicas


def refused(kube: Kube, resource: Mapping[str, Any]) -> str:
    """Apply what must not be admitted; give what kubectl says."""
    done = kube.run("apply", "-f", "-", stdin=yaml.safe_dump(resource), check=False)
    assert done.returncode != 0, "the resource was admitted"
    return done.stderr


def with_template(namespace: str, name: str, replicas: int = 1, **template: Any) -> dict[str, Any]:
    return simulated(namespace, name, pools=[{"name": "main", "replicas": replicas, "template": template}])


def degraded(kube: Kube, namespace: str, name: str, reason: str, *, seconds: float = 60) -> str:
    """Wait for condition Degraded with that reason; give its message."""

    def message() -> str | None:
        found = condition(kube.get("specdep", namespace, name) or {}, "Degraded")
        return str(found["message"]) if found.get("reason") == reason else None

    return wait_for(f"{namespace}/{name} is Degraded for {reason}", message, seconds=seconds)


def test_an_unknown_field_is_refused_by_its_name(kube: Kube, namespace: str) -> None:
    assert 'unknown field "spec.temperature"' in refused(kube, simulated(namespace, "chat", temperature=1))


def test_a_host_path_is_refused_by_its_name(kube: Kube, namespace: str) -> None:
    volume = {"name": "node", "hostPath": {"path": "/"}}

    assert "hostPath" in refused(kube, with_template(namespace, "chat", volumes=[volume]))


def test_a_name_too_long_is_refused_with_the_length_that_fits(kube: Kube, namespace: str) -> None:
    assert "metadata.name: Too long: may not be more than 63" in refused(kube, simulated(namespace, "c" * 64))


def test_a_service_account_that_is_not_allowed_gets_no_pod(kube: Kube, namespace: str) -> None:
    kube.apply(with_template(namespace, "chat", serviceAccountName="cluster-admin"))

    message = degraded(kube, namespace, "chat", "ServiceAccountNotAllowed")

    assert "cluster-admin" in message
    assert engine_pods(kube, namespace, "chat") == []


def test_more_replicas_than_the_ceiling_keep_the_pods_that_run(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat"))
    wait_ready(kube, namespace, "chat")

    kube.apply(simulated(namespace, "chat", replicas=MAX_REPLICAS + 1))
    message = degraded(kube, namespace, "chat", "LimitExceeded")

    assert f"{MAX_REPLICAS + 1} replicas" in message
    assert len(engine_pods(kube, namespace, "chat")) == 1
    complete(kube, namespace, "chat")


def test_an_unknown_metrics_source_is_named_and_the_pods_serve(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat", tuning={"metricsSource": "elsewhere"}))
    wait_ready(kube, namespace, "chat")

    message = degraded(kube, namespace, "chat", "UnknownMetricsSource")

    assert "elsewhere" in message
    complete(kube, namespace, "chat")


def test_a_model_path_that_does_not_exist_is_told_by_name(kube: Kube, namespace: str) -> None:
    kube.apply(
        {
            **simulated(namespace, "chat"),
            "spec": {
                "model": {"uri": f"file://{NOWHERE}"},
                "engine": {"type": "builtin", "dtype": "float32"},
                "speculation": {"method": "ngram", "depth": {"initial": 1, "max": 2}},
                "pools": [{"name": "main", "replicas": 1}],
            },
        }
    )

    message = degraded(kube, namespace, "chat", "EngineFailed", seconds=150)

    assert NOWHERE in message
    assert condition(kube.get("specdep", namespace, "chat") or {}, "Ready")["status"] == "False"


@pytest.fixture(scope="module")
def engine(kube: Kube, release: Release) -> Iterator[str]:
    """The Service path of one engine for all requests of this module."""
    namespace = "e2e-bad-requests"
    kube.run("delete", "namespace", namespace, "--ignore-not-found")
    kube.run("create", "namespace", namespace)
    kube.apply(simulated(namespace, "chat"))
    wait_ready(kube, namespace, "chat")
    yield kube.service(namespace, "chat", "/v1/completions")
    kube.run("delete", "namespace", namespace, "--wait=false")


@pytest.mark.parametrize(
    ("body", "status", "names"),
    [
        pytest.param({"prompt": "word " * 50_000}, 400, "context", id="over-long prompt"),
        pytest.param({"max_tokens": "many"}, 400, "max_tokens", id="wrong type"),
        pytest.param({"temperature": -1}, 400, "temperature", id="out of range"),
        pytest.param({"model": "gpt-5"}, 404, "gpt-5", id="unknown model"),
        pytest.param("{not json", 400, "JSON", id="invalid JSON"),
    ],
)
def test_a_bad_request_is_answered_as_openai_does(
    kube: Kube, engine: str, body: dict[str, Any] | str, status: int, names: str
) -> None:
    good = {"model": "chat", "prompt": "hello", "max_tokens": 4}
    content = body if isinstance(body, str) else json.dumps({**good, **body})

    answer = kube.proxy.post(engine, content=content, headers={"Content-Type": "application/json"})

    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert names in error["message"]
    assert error["type"] and {"param", "code"} <= error.keys()


class Served:
    """A copy of the live CRD, changed: what the operator would find. ``None``: no CRD."""

    def __init__(self, crd: Object | None) -> None:
        self._crd = crd

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        if self._crd is None:
            raise NotFound(f"{kind.kind} {name}")
        return self._crd

    async def list_metadata(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None]
    ) -> list[Object]:
        raise AssertionError("who may read the CRD need not list resources")


def without_crd(crd: Object) -> None:
    return None


def of_another_version(crd: Object) -> Object:
    crd["metadata"]["annotations"][HASH_ANNOTATION] = "0" * 12
    return crd


def not_served(crd: Object) -> Object:
    crd["spec"]["versions"][0]["served"] = False
    return crd


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(without_crd, "is missing", id="missing"),
        pytest.param(of_another_version, "has schema 000000000000", id="another version"),
        pytest.param(not_served, "does not serve v1alpha1", id="not served"),
    ],
)
async def test_a_crd_that_does_not_fit_stops_the_operator_with_what_to_do(
    kube: Kube, release: Release, change: Callable[[Object], Object | None], says: str
) -> None:
    live = json.loads(kube.run("get", "crd", NAME, "-o", "json").stdout)
    await check_crd(Served(live), None)

    with pytest.raises(UnusableCrd, match=says) as raised:
        await check_crd(Served(change(copy.deepcopy(live))), None)

    assert "specfleet crds | kubectl apply" in str(raised.value)


def test_no_request_broke_the_engine(kube: Kube, engine: str) -> None:
    answer = kube.proxy.post(engine, json={"model": "chat", "prompt": "hello", "max_tokens": 4})

    assert answer.status_code == 200, answer.text
