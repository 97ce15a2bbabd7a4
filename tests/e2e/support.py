"""What end-to-end tests need from a cluster: kubectl, a proxy into it, and waiting for a condition.

Nothing here knows which cluster it is: everything goes through the API server of the given kubeconfig.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
SYSTEM_NAMESPACE = "specfleet-system"
RELEASE = "specfleet"
# Where hf:// leads; a test that fetches models starts a hub there.
HUB_NAMESPACE = "specfleet-e2e-hub"
HUB_URL = f"http://hub.{HUB_NAMESPACE}:8000"

T = TypeVar("T")


class Timeout(AssertionError):
    """A condition did not become true in time; the message holds the last value seen."""


def wait_for(what: str, read: Callable[[], T | None], *, seconds: float, every: float = 0.5) -> T:
    """Call ``read`` until it gives something true. Raises Timeout with what it gave last."""
    deadline = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < deadline:
        value = read()
        if value:
            return value
        last = value
        time.sleep(every)
    raise Timeout(f"not within {seconds:.0f} s: {what} (last seen: {last!r})")


def wait_and_time(
    what: str, read: Callable[[], T | None], *, seconds: float, every: float = 0.05
) -> tuple[float, T]:
    """As ``wait_for``; give also the last moment (``time.monotonic``) at which the condition did not hold."""
    before = time.monotonic()

    def timed() -> T | None:
        nonlocal before
        asked = time.monotonic()
        value = read()
        if not value:
            before = asked
        return value

    value = wait_for(what, timed, seconds=seconds, every=every)
    return before, value


@dataclass(frozen=True)
class Kube:
    """kubectl and helm against one cluster, and an HTTP proxy into it."""

    kubeconfig: Path
    kubectl: str
    helm: str
    proxy: httpx.Client

    def run(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return self._run([self.kubectl, *arguments], stdin=stdin, check=check)

    def run_helm(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run([self.helm, *arguments], stdin=None, check=check)

    def _run(self, command: list[str], *, stdin: str | None, check: bool) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        done = self.run("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def list(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        arguments = ["get", kind, "-n", namespace, "-o", "json"]
        if selector:
            arguments += ["-l", selector]
        return list(json.loads(self.run(*arguments).stdout)["items"])

    def apply(self, *documents: Mapping[str, Any]) -> None:
        self.run("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def patch(self, kind: str, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        self.run("patch", kind, name, "-n", namespace, "--type", "merge", "-p", json.dumps(body))

    def service(self, namespace: str, name: str, path: str) -> str:
        """Give the proxy path of a Service's HTTP port."""
        return f"/api/v1/namespaces/{namespace}/services/{name}:http/proxy{path}"

    def pod(self, namespace: str, name: str, path: str, port: int = 8000) -> str:
        return f"/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy{path}"

    def metrics(self, namespace: str, pod: str) -> dict[str, float]:
        """Read a pod's metrics: sample name with labels -> value."""
        text = self.proxy.get(self.pod(namespace, pod, "/metrics")).raise_for_status().text
        lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}


@dataclass(frozen=True)
class Release:
    """The installed chart."""

    kube: Kube
    images: Mapping[str, str]

    def upgrade(self, *settings: str) -> None:
        """Install or upgrade with the tests' values and these further ``--set`` arguments.

        It ends when the operator of these values leads: the next test may run beside this one.
        """
        values = [
            f"image={self.images['operator']}",
            f"engineImages.builtin={self.images['engine']}",
            f"engineImages.simulated={self.images['simulated']}",
            f"engineImages.preflight={self.images['preflight']}",
            f"engineImages.vllmPlugin={self.images['vllm-plugin']}",
            f"prometheus.image={self.images['prometheus']}",
            "prometheus.install=true",
            f"modelHub.endpoint={HUB_URL}",
            # As in the demo. It is also the pace of the tuner's passes, and with that of every pin and push.
            "tuning.scrapeIntervalSeconds=3",
            "tuning.pushCooldownSeconds=15",
            "tuning.probeSeconds=10",
            "tuning.probeUnknownIntervalSeconds=15",
            "tuning.probeKnownIntervalSeconds=60",
            *settings,
        ]
        flags = [part for value in values for part in ("--set", value)]
        chart = str(REPOSITORY / "charts" / "specfleet")
        self.kube.run_helm(
            "upgrade", "--install", RELEASE, chart, "-n", SYSTEM_NAMESPACE, "--create-namespace",
            "--take-ownership", *flags,
        )  # fmt: skip
        self.rolled_out("operator")
        wait_for("the operator leads", self.leads, seconds=90)

    def rolled_out(self, component: str) -> None:
        """Wait until a component's pods are those of its newest template."""
        name = f"deployment/{RELEASE}-{component}"
        self.kube.run("rollout", "status", name, "-n", SYSTEM_NAMESPACE, "--timeout=120s")

    def operator_pods(self) -> list[dict[str, Any]]:
        return self.kube.list("pods", SYSTEM_NAMESPACE, "app.kubernetes.io/component=operator")

    def leads(self) -> str | None:
        """Give the name of the operator pod that is ready and holds the lease; None while there is none."""
        lease = self.kube.get("lease", SYSTEM_NAMESPACE, f"{RELEASE}-operator") or {}
        holder = str(lease.get("spec", {}).get("holderIdentity") or "")
        for pod in self.operator_pods():
            name = pod["metadata"]["name"]
            if holder.startswith(name) and is_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
                return str(name)
        return None

    def kill_operator(self) -> None:
        """Kill the operator as a crash would, without a graceful end."""
        for pod in self.operator_pods():
            self.kube.run(
                "delete",
                "pod",
                pod["metadata"]["name"],
                "-n",
                SYSTEM_NAMESPACE,
                "--grace-period=0",
                "--force",
            )

    def scale(self, component: str, replicas: int) -> None:
        name = f"deployment/{RELEASE}-{component}"
        self.kube.run("scale", name, "-n", SYSTEM_NAMESPACE, f"--replicas={replicas}")

    @contextmanager
    def without_operator(self) -> Iterator[None]:
        """Stop the operator for the block. Only for a test that is ``alone``."""
        self.scale("operator", 0)
        try:
            wait_for("no operator is left", lambda: not self.operator_pods(), seconds=60)
            yield
        finally:
            self.scale("operator", 1)


def is_ready(thing: Mapping[str, Any]) -> bool:
    """Say whether an object's condition Ready is True."""
    return condition(thing, "Ready").get("status") == "True"


def condition(thing: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Give one condition of an object; empty if it has none of that type."""
    conditions = thing.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), {})


def schedule_version(metrics: Mapping[str, float]) -> int:
    """Give the version in force on one pod."""
    values = [value for name, value in metrics.items() if name.startswith("specfleet_schedule_version")]
    return int(max(values, default=0))


def simulated(
    namespace: str, name: str, *, replicas: int = 1, pool: str = "main", **spec: Any
) -> dict[str, Any]:
    """Build a small fleet of simulated engines. ``spec`` keys replace whole parts of the spec."""
    return {
        "apiVersion": "specfleet.dev/v1alpha1",
        "kind": "SpeculativeDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "engine": {"type": "simulated", "maxNumSeqs": 8, "simulated": {"stepTime": "20ms"}},
            "speculation": {"method": "ngram", "depth": {"initial": 2, "max": 5}},
            "tuning": {"mode": "Enforce"},
            "pools": [
                {
                    "name": pool,
                    "replicas": replicas,
                    "template": {"resources": {"requests": {"cpu": "50m", "memory": "48Mi"}}},
                }
            ],
            **spec,
        },
    }


REPETITIVE = "def add(a, b):\n    return a + b\n" * 12


def complete(kube: Kube, namespace: str, name: str, *, prompt: str = REPETITIVE, tokens: int = 60) -> str:
    """Ask a deployment's Service for a greedy completion; give its text."""
    body = {"model": name, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    answer = kube.proxy.post(kube.service(namespace, name, "/v1/completions"), json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


class Users:
    """Users of some deployments, each asking one request after the other until the block ends."""

    def __init__(self, kube: Kube, targets: Iterable[tuple[str, str]], users_each: int = 1) -> None:
        self._kube = kube
        self._done = threading.Event()
        self.failures: list[str] = []
        self.completed = 0
        self._threads = [
            threading.Thread(target=self._ask, args=target) for target in targets for _ in range(users_each)
        ]

    def _ask(self, namespace: str, name: str) -> None:
        while not self._done.is_set():
            try:
                complete(self._kube, namespace, name)
                self.completed += 1
            except (AssertionError, httpx.HTTPError) as error:
                self.failures.append(f"{namespace}/{name}: {error!r}")
                self._done.wait(0.5)

    def __enter__(self) -> "Users":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()


def engine_pods(kube: Kube, namespace: str, name: str) -> list[dict[str, Any]]:
    """Give the live engine pods of a deployment, those that end left out."""
    pods = kube.list("pods", namespace, f"specfleet.dev/deployment={name}")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def identities(pods: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Give each pod's uid and its restarts: equal before and after means that nothing was rolled."""
    return {
        pod["metadata"]["uid"]: sum(one["restartCount"] for one in pod["status"].get("containerStatuses", []))
        for pod in pods
    }


def wait_ready(kube: Kube, namespace: str, name: str, *, seconds: float = 120) -> dict[str, Any]:
    """Wait until a deployment is Ready at its current generation, and its Service reachable; give it."""

    def ready() -> dict[str, Any] | None:
        found = kube.get("specdep", namespace, name) or {}
        at = condition(found, "Ready").get("observedGeneration")
        return found if is_ready(found) and at == found["metadata"]["generation"] else None

    found = wait_for(f"{namespace}/{name} is Ready", ready, seconds=seconds)
    if engine_pods(kube, namespace, name):
        # A Service gets its endpoints later, the more the cluster has to do; until then the API server's
        # proxy says that there is no such Service, or that nobody is behind it.
        wait_for(f"{namespace}/{name} has endpoints", lambda: endpoints(kube, namespace, name), seconds=60)
    return found


def endpoints(kube: Kube, namespace: str, name: str) -> list[dict[str, Any]]:
    """Give the addresses that the API server's proxy sends requests to.

    It reads Endpoints (pkg/registry/core/service/storage), which another controller writes than the slices.
    """
    found = kube.get("endpoints", namespace, name) or {}
    return [address for subset in found.get("subsets") or () for address in subset.get("addresses") or ()]


def pool_status(kube: Kube, namespace: str, name: str) -> dict[str, Any]:
    """Give the status of a deployment's first pool; empty before there is one."""
    pools = (kube.get("specdep", namespace, name) or {}).get("status", {}).get("pools", [])
    return dict(pools[0]) if pools else {}
