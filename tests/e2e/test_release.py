"""The chart as a release: upgrades that leave engines alone, a release for one namespace, and permissions."""

import copy
import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from tests.e2e.support import (
    RELEASE,
    REPOSITORY,
    SYSTEM_NAMESPACE,
    Kube,
    Release,
    complete,
    engine_pods,
    identities,
    is_ready,
    pool_status,
    simulated,
    wait_for,
    wait_ready,
)

pytestmark = pytest.mark.timeout(900)

CRD = "speculativedeployments.specfleet.dev"
RESOURCE = "speculativedeployments.specfleet.dev"
# What a release may consist of. Secrets are Helm's own notes.
OF_A_RELEASE = (
    "deployments,pods,services,configmaps,serviceaccounts,roles,rolebindings,"
    "clusterroles,clusterrolebindings,networkpolicies"
)


@dataclass(frozen=True)
class Confined:
    """A second release that looks after one namespace only."""

    kube: Kube
    name: str
    home: str
    watched: str

    def install(self, images: dict[str, str]) -> None:
        values = [
            f"image={images['operator']}",
            f"engineImages.builtin={images['engine']}",
            f"engineImages.simulated={images['simulated']}",
            f"engineImages.preflight={images['preflight']}",
            f"watchNamespaces={{{self.watched}}}",
            f"metricsSources.default.url=http://{RELEASE}-prometheus.{SYSTEM_NAMESPACE}:9090",
            "rbac.userRoles=false",
            "resources.requests.cpu=50m",
        ]
        flags = [part for value in values for part in ("--set", value)]
        chart = str(REPOSITORY / "charts" / "specfleet")
        # The CRD belongs to the first release; this one must leave it behind all the same.
        self.kube.run_helm(
            "install", self.name, chart, "-n", self.home, "--take-ownership", "--force-conflicts", *flags
        )

    def pods(self) -> list[dict[str, Any]]:
        selector = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component=operator"
        return self.kube.list("pods", self.home, selector)

    def leads(self) -> str | None:
        """Give the operator's pod that is ready and holds this release's own lease."""
        lease = self.kube.get("lease", self.home, f"{self.name}-specfleet-operator") or {}
        holder = str(lease.get("spec", {}).get("holderIdentity") or "")
        for pod in self.pods():
            if is_ready(pod) and holder.startswith(pod["metadata"]["name"]):
                return str(pod["metadata"]["name"])
        return None

    def uninstall(self) -> None:
        self.kube.run_helm("uninstall", self.name, "-n", self.home, "--ignore-not-found", "--wait")

    def remains(self) -> list[str]:
        selector = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/managed-by=Helm"
        done = self.kube.run("get", OF_A_RELEASE, "-A", "-l", selector, "-o", "name")
        return done.stdout.split()


@pytest.fixture
def confined(kube: Kube, make_namespace: Callable[[], str], release: Release) -> Iterator[Confined]:
    second = Confined(kube, f"own-{uuid.uuid4().hex[:4]}", make_namespace(), make_namespace())
    yield second
    second.uninstall()


def may(kube: Kube, user: str, verb: str, resource: str, namespace: str, subresource: str = "") -> bool:
    """Ask the API server whether a user may do something in a namespace."""
    arguments = ["auth", "can-i", verb, resource, "-n", namespace, "--as", user]
    if subresource:
        arguments.append(f"--subresource={subresource}")
    return kube.run(*arguments, check=False).stdout.strip() == "yes"


def operator_account(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def reconciled_by(kube: Kube, pod: str) -> float:
    """Give how many reconciles an operator's pod has finished."""
    text = kube.proxy.get(kube.pod(SYSTEM_NAMESPACE, pod, "/metrics", port=8080)).raise_for_status().text
    found = re.search(r"^specfleet_operator_reconcile_seconds_count (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def apply_crd(kube: Kube, crd: dict[str, Any]) -> None:
    """Apply a CRD as Helm's manager: another one's fields would be a conflict at the next upgrade."""
    flags = ("--server-side", "--field-manager=helm", "--force-conflicts")
    kube.run("apply", *flags, "-f", "-", stdin=yaml.safe_dump(crd))


@pytest.mark.alone
def test_an_upgrade_of_operator_and_crd_rolls_no_engine_pod(
    kube: Kube, release: Release, images: dict[str, str], namespace: str
) -> None:
    kube.apply(simulated(namespace, "chat", replicas=2))
    wait_ready(kube, namespace, "chat")
    pods = identities(engine_pods(kube, namespace, "chat"))
    before = release.leads()
    crd = yaml.safe_load((REPOSITORY / "crds" / f"{CRD}.yaml").read_text(encoding="utf-8"))
    newer = copy.deepcopy(crd)
    newer["spec"]["versions"][0]["additionalPrinterColumns"].append(
        {"name": "Newer", "type": "string", "jsonPath": ".status.fingerprint", "priority": 1}
    )

    try:
        # The order of an upgrade: first the schema, then an operator that brings another default image.
        apply_crd(kube, newer)
        release.upgrade(
            "podAnnotations.example\\.org/upgrade=again",
            f"engineImages.simulated=docker.io/{images['simulated']}",
        )
        after = wait_for(
            "the new operator leads",
            lambda: name if (name := release.leads()) != before else None,
            seconds=120,
        )
        wait_for("it has looked at the fleet", lambda: reconciled_by(kube, after) >= 1, seconds=60)
        kube.patch("specdep", namespace, "chat", {"spec": {"tuning": {"schedule": [{"depth": 4}]}}})
        wait_for(
            "it acts on the fleet",
            lambda: pool_status(kube, namespace, "chat").get("schedule", {}).get("table") == [{"depth": 4}],
            seconds=90,
        )
    finally:
        apply_crd(kube, crd)
        release.upgrade()

    wait_ready(kube, namespace, "chat")
    assert identities(engine_pods(kube, namespace, "chat")) == pods
    complete(kube, namespace, "chat")


@pytest.mark.alone
def test_a_release_for_one_namespace_serves_there_and_leaves_engines_and_crd_behind(
    kube: Kube, release: Release, images: dict[str, str], confined: Confined
) -> None:
    confined.install(images)
    operator = wait_for("the second operator leads", confined.leads, seconds=120)
    # The cluster-wide release watches this namespace too: what happens now must be the second one's work.
    release.scale("operator", 0)
    try:
        wait_for("only the second operator runs", lambda: not release.operator_pods(), seconds=60)
        kube.apply(
            simulated(confined.watched, "chat", tuning={"mode": "Enforce", "schedule": [{"depth": 4}]}),
        )
        wait_ready(kube, confined.watched, "chat")
        wait_for(
            "the pin is in force at the pod",
            lambda: pool_status(kube, confined.watched, "chat").get("schedule", {}).get("appliedReplicas"),
            seconds=60,
        )
        complete(kube, confined.watched, "chat")
        logs = kube.run("logs", operator, "-n", confined.home).stdout
        account = operator_account(confined.home, f"{confined.name}-specfleet-operator")
        allowed_here = may(kube, account, "patch", "deployments.apps", confined.watched)
        allowed_elsewhere = may(kube, account, "list", RESOURCE, SYSTEM_NAMESPACE)
        pods = identities(engine_pods(kube, confined.watched, "chat"))
        confined.uninstall()
        wait_for("the release is gone", lambda: not confined.remains(), seconds=60)
        still = identities(engine_pods(kube, confined.watched, "chat"))
        complete(kube, confined.watched, "chat")
    finally:
        release.scale("operator", 1)
        release.upgrade()  # takes the CRD back

    # The word alone: every refusal of the API server has it, and "403" may stand in a time or a name.
    assert "orbidden" not in logs
    assert allowed_here and not allowed_elsewhere
    assert still == pods
    assert kube.run("get", "crd", CRD, "-o", "name").stdout.strip()
    assert kube.get("specdep", confined.watched, "chat") is not None


@pytest.mark.parametrize(
    ("role", "verb", "subresource", "allowed"),
    [
        ("view", "get", "", True),
        ("view", "watch", "", True),
        ("view", "get", "status", True),
        ("view", "create", "", False),
        ("view", "delete", "", False),
        ("edit", "list", "", True),
        ("edit", "create", "", True),
        ("edit", "patch", "", True),
        ("edit", "delete", "", True),
        ("edit", "patch", "status", False),
        ("admin", "get", "", True),
        ("admin", "create", "", True),
        ("admin", "deletecollection", "", True),
        ("admin", "update", "status", False),
    ],
)
def test_the_clusters_roles_reach_speculative_deployments(
    kube: Kube, bound_users: str, role: str, verb: str, subresource: str, allowed: bool
) -> None:
    assert may(kube, f"{role}-user", verb, RESOURCE, bound_users, subresource) is allowed


@pytest.fixture(scope="module")
def bound_users(kube: Kube, release: Release) -> Iterator[str]:
    """A namespace where view-user, edit-user and admin-user have the cluster's role of that name."""
    namespace = f"e2e-roles-{uuid.uuid4().hex[:6]}"
    kube.run("create", "namespace", namespace)
    for role in ("view", "edit", "admin"):
        kube.run(
            "create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}-user", "-n", namespace
        )
    yield namespace
    kube.run("delete", "namespace", namespace, "--wait=false")


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("get", "secrets"),
        ("list", "secrets"),
        ("create", "pods"),
        ("delete", "pods"),
        ("get", "nodes"),  # it lists them, for what image volumes need, and does no more with them
        ("patch", "nodes"),
        ("create", RESOURCE),
        ("delete", RESOURCE),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
        ("impersonate", "users"),
        ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
        ("delete", "leases.coordination.k8s.io"),
    ],
)
@pytest.mark.parametrize("where", ["default", SYSTEM_NAMESPACE])
def test_the_operator_may_not(kube: Kube, release: Release, where: str, verb: str, resource: str) -> None:
    account = operator_account(SYSTEM_NAMESPACE, f"{RELEASE}-operator")

    assert may(kube, account, "get", RESOURCE, where), "the question is about another account"
    assert not may(kube, account, verb, resource, where)


@pytest.mark.alone
def test_the_live_crd_is_kept_when_its_release_goes(kube: Kube, release: Release) -> None:
    release.upgrade()  # other tests apply the CRD on their own
    crd = json.loads(kube.run("get", "crd", CRD, "-o", "json").stdout)

    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
