"""The CRD on a real API server: cost of the rules, the table of cases, defaults, two field managers.

Only dry runs and a namespace of its own: the cluster may be in use by other tests.
"""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.resource import Resource
from tests.unit.api.admission import with_defaults
from tests.unit.api.cases import ACCEPTED, REFUSED, Case, edited

from specfleet.api.crd import NAME, crd, schema
from specfleet.api.kinds import RECONCILE_MANAGER, TUNER_MANAGER
from specfleet.api.resource import GROUP, KIND, VERSION

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def api() -> Iterator[DynamicClient]:
    kubeconfig = os.environ.get("SPECFLEET_KUBECONFIG")
    if kubeconfig is None:
        command = [sys.executable, str(REPOSITORY / "dev" / "cluster" / "cluster.py"), "kubeconfig"]
        kubeconfig = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with config.new_client_from_config(kubeconfig) as connection:
        yield DynamicClient(connection)


@pytest.fixture(scope="module")
def resources(api: DynamicClient) -> Resource:
    """The kind as this version's CRD serves it; the API server has accepted the cost of its rules."""
    crds = api.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
    # As helm, so that the chart can be installed over it without a conflict of managers.
    crds.server_side_apply(body=crd(), name=NAME, field_manager="helm", force_conflicts=True)
    deadline = time.monotonic() + 30
    while not _is_served(crds.get(name=NAME).to_dict()):
        assert time.monotonic() < deadline, "the CRD is not established within 30 s"
        time.sleep(0.2)
    api.resources.invalidate_cache()
    kind = api.resources.get(api_version=f"{GROUP}/{VERSION}", kind=KIND)
    # An established CRD is served by a handler that may still hold the schema of an older one.
    while _refusals(kind, REFUSED[0].resource) == [] or _refusals(kind, ACCEPTED[0].resource):
        assert time.monotonic() < deadline, "the new schema is not in force within 30 s"
        time.sleep(0.2)
    return kind


@pytest.fixture
def namespace(api: DynamicClient) -> Iterator[str]:
    namespaces = api.resources.get(api_version="v1", kind="Namespace")
    name = f"crd-{uuid.uuid4().hex[:8]}"
    namespaces.create(body={"metadata": {"name": name}})
    yield name
    namespaces.delete(name=name)


def _is_served(definition: dict[str, Any]) -> bool:
    # A new CRD has `conditions: null` for a moment.
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)


def _dry_run(kind: Resource, resource: dict[str, Any]) -> dict[str, Any]:
    """Admit a resource without storing it, as kubectl does: unknown fields are refused."""
    in_default = edited(resource, {"metadata.namespace": "default"})
    query = [("dryRun", "All"), ("fieldValidation", "Strict")]
    return dict(kind.create(body=in_default, query_params=query).to_dict())


def _refusals(kind: Resource, resource: dict[str, Any]) -> list[tuple[str, str]]:
    """Give field and message of each reason to refuse a resource; empty: it is admitted."""
    try:
        _dry_run(kind, resource)
    except client.ApiException as error:
        answer = json.loads(error.body)
        causes = answer.get("details", {}).get("causes", [])
        # Unknown fields are told in the message only.
        return [(cause.get("field", ""), cause.get("message", "")) for cause in causes] or [
            ("", answer["message"])
        ]
    return []


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_a_sensible_resource_is_admitted(resources: Resource, case: Case) -> None:
    assert _refusals(resources, case.resource) == []


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_wrong_resource_is_refused_at_its_field(resources: Resource, case: Case) -> None:
    refusals = _refusals(resources, case.resource)

    assert [
        field or message
        for field, message in refusals
        if (field.startswith(case.at) and (case.structural or case.says in message))
        or f'unknown field "{case.at}"' in message
    ], refusals


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_is_admitted(resources: Resource, example: Path) -> None:
    for resource in yaml.safe_load_all(example.read_text(encoding="utf-8")):
        assert _refusals(resources, resource) == []


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_the_server_fills_in_the_defaults_that_the_models_have(resources: Resource, case: Case) -> None:
    assert _dry_run(resources, case.resource)["spec"] == with_defaults(case.resource, schema())["spec"]


def test_reconcile_and_tuner_write_the_same_pool_without_deleting_each_others_fields(
    resources: Resource, namespace: str
) -> None:
    resource = edited(ACCEPTED[0].resource, {"metadata.namespace": namespace})
    resources.create(body=resource)
    counted = {"ready": "1/1", "pools": [{"name": "interactive", "replicas": 1, "slices": []}]}
    judged = {"pools": [{"name": "interactive", "state": "Active"}], "summary": {"state": "Active"}}

    _apply_status(resources, resource, counted, RECONCILE_MANAGER)
    _apply_status(resources, resource, judged, TUNER_MANAGER)
    status = _apply_status(resources, resource, counted | {"ready": "0/1"}, RECONCILE_MANAGER)

    assert status == {
        "ready": "0/1",
        "summary": {"state": "Active"},
        "pools": [{"name": "interactive", "replicas": 1, "slices": [], "state": "Active"}],
    }


def test_a_condition_of_one_manager_stays_when_the_other_writes_its_own(
    resources: Resource, namespace: str
) -> None:
    resource = edited(ACCEPTED[0].resource, {"metadata.namespace": namespace})
    resources.create(body=resource)

    _apply_status(resources, resource, {"conditions": [_condition("Ready")]}, RECONCILE_MANAGER)
    status = _apply_status(
        resources, resource, {"conditions": [_condition("MetricsAvailable")]}, TUNER_MANAGER
    )

    assert {entry["type"] for entry in status["conditions"]} == {"Ready", "MetricsAvailable"}


def test_a_write_of_status_changes_no_generation_and_a_write_of_spec_does(
    resources: Resource, namespace: str
) -> None:
    resource = edited(ACCEPTED[0].resource, {"metadata.namespace": namespace})
    resources.create(body=resource)

    _apply_status(resources, resource, {"ready": "1/1"}, RECONCILE_MANAGER)
    after_status = resources.get(name="chat", namespace=namespace).metadata.generation
    resources.patch(
        body={"spec": {"tuning": {"paused": True}}},
        name="chat",
        namespace=namespace,
        content_type="application/merge-patch+json",
    )

    assert (after_status, resources.get(name="chat", namespace=namespace).metadata.generation) == (1, 2)


def _condition(kind: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True",
        "reason": "Tested",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _apply_status(
    kind: Resource, resource: dict[str, Any], status: dict[str, Any], manager: str
) -> dict[str, Any]:
    body = {
        "apiVersion": resource["apiVersion"],
        "kind": resource["kind"],
        "metadata": {"name": resource["metadata"]["name"], "namespace": resource["metadata"]["namespace"]},
        "status": status,
    }
    applied = kind.status.server_side_apply(body=body, field_manager=manager, force_conflicts=True)
    return dict(applied.to_dict()["status"])
