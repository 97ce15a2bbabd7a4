"""RBAC: enough to work, nothing that a stolen token could be used for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rendering import NAMESPACE, Rendered, render
from value_sets import NAMESPACED

Chart = Callable[[str], Rendered]
Grant = tuple[str, str, str]

OPERATOR = {"kind": "ServiceAccount", "name": "specfleet-operator", "namespace": NAMESPACE}

# reference: what the operator does with each kind. Server-side apply is create and patch.
NEEDED: set[Grant] = {
    *(("specfleet.dev", "speculativedeployments", verb) for verb in ("get", "list", "watch")),
    ("specfleet.dev", "speculativedeployments/status", "patch"),
    *(
        (group, resource, verb)
        for group, resource in (
            ("apps", "deployments"),
            ("", "services"),
            ("", "configmaps"),
            ("policy", "poddisruptionbudgets"),
        )
        for verb in ("get", "list", "watch", "create", "patch", "delete")
    ),
    # Garbage collection removes them with their owner, and nobody waits for a change of one.
    *(("monitoring.coreos.com", "podmonitors", verb) for verb in ("get", "list", "create", "patch")),
    *(("", "pods", verb) for verb in ("list", "patch")),
    *(("events.k8s.io", "events", verb) for verb in ("create", "patch")),
}
# In either mode: CRDs and nodes have no namespace.
CLUSTER_WIDE: set[Grant] = {
    ("apiextensions.k8s.io", "customresourcedefinitions", "get"),
    ("", "nodes", "list"),
}
LEASE: set[Grant] = {("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")}


def grants(role: dict[str, Any]) -> set[Grant]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def granted(
    rendering: Rendered, *, subject: dict[str, str] = OPERATOR, namespace: str | None = None
) -> set[Grant]:
    """Everything that bindings give to the subject, cluster-wide (None) or in one namespace."""
    scope = "Cluster" if namespace is None else ""
    found: set[Grant] = set()
    for binding in rendering.all(f"{scope}RoleBinding"):
        if subject not in binding["subjects"] or binding["metadata"].get("namespace") != namespace:
            continue
        reference = binding["roleRef"]
        roles = [
            role
            for role in rendering.all(reference["kind"])
            if role["metadata"]["name"] == reference["name"]
            and role["metadata"].get("namespace") == namespace
        ]
        assert len(roles) == 1, f"{binding['metadata']['name']} binds {len(roles)} roles"
        found |= grants(roles[0])
    return found


def test_cluster_wide_the_operator_gets_exactly_what_it_needs(chart: Chart) -> None:
    assert granted(chart("defaults")) == NEEDED | CLUSTER_WIDE


def test_the_lease_is_granted_in_the_operators_own_namespace_only(rendered: Rendered) -> None:
    assert granted(rendered, namespace=NAMESPACE) == LEASE


def test_namespaced_the_operator_gets_the_same_rules_in_each_namespace(chart: Chart) -> None:
    for namespace in ("team-a", "team-b"):
        assert granted(chart("namespaced"), namespace=namespace) == NEEDED


def test_namespaced_nothing_but_reading_the_crd_is_cluster_wide(chart: Chart) -> None:
    assert granted(chart("namespaced")) == CLUSTER_WIDE


def test_namespaced_no_other_cluster_role_remains_without_user_roles(tmp_path: Path) -> None:
    rendering = render({**NAMESPACED, "rbac": {"userRoles": False}}, tmp_path)

    assert rendering.names("ClusterRole") == {f"specfleet-operator-{NAMESPACE}-cluster"}


def test_only_the_crd_by_name_may_be_read(rendered: Rendered) -> None:
    rules = [
        rule
        for role in rendered.all("ClusterRole")
        for rule in role["rules"]
        if rule["apiGroups"] == ["apiextensions.k8s.io"]
    ]

    assert [rule["resourceNames"] for rule in rules] == [["speculativedeployments.specfleet.dev"]]


def test_no_role_reads_secrets_enters_pods_or_uses_a_wildcard(rendered: Rendered) -> None:
    for kind in ("Role", "ClusterRole"):
        for role in rendered.all(kind):
            for grant in grants(role):
                assert "*" not in grant, role["metadata"]["name"]
                assert grant[1] not in {"secrets", "pods/exec", "pods/portforward", "namespaces"}, grant


@pytest.mark.parametrize(
    ("mode", "namespaces"),
    [
        pytest.param("own-prometheus", [None], id="cluster-wide"),
        pytest.param("everything", ["team-a", "team-b", NAMESPACE], id="namespaced"),
    ],
)
def test_prometheus_reads_pods_where_it_scrapes_and_nothing_else(
    chart: Chart, mode: str, namespaces: list[str | None]
) -> None:
    subject = {**OPERATOR, "name": "specfleet-prometheus"}

    for namespace in namespaces:
        assert granted(chart(mode), subject=subject, namespace=namespace) == {
            ("", "pods", verb) for verb in ("get", "list", "watch")
        }


def test_viewers_may_look_and_only_editors_and_admins_may_change(chart: Chart) -> None:
    rendering = chart("defaults")
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    may: dict[str, set[str]] = {"view": set(), "edit": set(), "admin": set()}

    for role in rendering.all("ClusterRole"):
        for audience in may:
            if role["metadata"]["labels"].get(prefix + audience) == "true":
                may[audience] |= {verb for _, _, verb in grants(role)}

    assert may["view"] == {"get", "list", "watch"}
    assert may["edit"] == may["admin"] >= {"create", "update", "patch", "delete"}


def test_without_rbac_creation_no_role_of_the_operator_is_made(tmp_path: Path) -> None:
    rendering = render({"rbac": {"create": False, "userRoles": False}}, tmp_path)

    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
        assert not rendering.all(kind)
