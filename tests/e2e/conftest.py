"""One cluster and one installed release for all end-to-end tests; a fresh namespace for each test that asks.

The cluster and the images are those of `make images`: SPECFLEET_KUBECONFIG if set, else the project's own.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.e2e.support import RELEASE, REPOSITORY, SYSTEM_NAMESPACE, Kube, Release, wait_for


def _tool(command: str) -> str:
    line = [sys.executable, str(REPOSITORY / "dev" / "cluster" / "cluster.py"), command]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="session")
def kube() -> Iterator[Kube]:
    kubeconfig = Path(os.environ.get("SPECFLEET_KUBECONFIG") or _tool("kubeconfig"))
    programs = Path(_tool("bin"))
    kubectl = str(programs / "kubectl")
    proxy = subprocess.Popen(
        [kubectl, "proxy", "--port=0", "--disable-filter=true"],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert proxy.stdout is not None
    address = proxy.stdout.readline().rpartition(" ")[2].strip()
    with httpx.Client(base_url=f"http://{address}", timeout=120, trust_env=False) as client:
        yield Kube(kubeconfig, kubectl, str(programs / "helm"), client)
    proxy.terminate()
    proxy.wait()
    proxy.stdout.close()


@pytest.fixture(scope="session")
def images() -> dict[str, str]:
    return dict(json.loads((REPOSITORY / "build" / "images.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def release(kube: Kube, images: dict[str, str]) -> Release:
    """The chart, installed with its own Prometheus and a pace that suits tests."""
    release = Release(kube, images)
    release.upgrade()
    kube.run(
        "rollout", "status", f"deployment/{RELEASE}-prometheus", "-n", SYSTEM_NAMESPACE, "--timeout=120s"
    )
    wait_for("the operator leads", release.leads, seconds=90)
    return release


@pytest.fixture
def make_namespace(kube: Kube) -> Iterator[Callable[[], str]]:
    made: list[str] = []

    def make() -> str:
        name = f"e2e-{uuid.uuid4().hex[:6]}"
        kube.run("create", "namespace", name)
        made.append(name)
        return name

    yield make
    for name in made:
        kube.run("delete", "specdep", "--all", "-n", name, "--wait=false")
        kube.run("delete", "namespace", name, "--wait=false")


@pytest.fixture
def namespace(make_namespace: Callable[[], str], release: Release) -> str:
    return make_namespace()
