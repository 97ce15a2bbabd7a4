"""One cluster and one installed release for all end-to-end tests; a fresh namespace for each test that asks.

The cluster and the images are those of `make images`: SPECFLEET_KUBECONFIG if set, else the project's own.
Two workers may run the files beside each other (docs/testing.md), because most of a test is waiting. A test
that takes something from all others, such as the operator, or that measures the machine, is marked ``alone``
and has all of the cluster.
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from tests.e2e.support import REPOSITORY, Kube, Release


@contextmanager
def locked(name: str, how: int) -> Iterator[None]:
    """Hold a lock that all workers know, ``fcntl.LOCK_SH`` together or ``fcntl.LOCK_EX`` alone."""
    with (Path(tempfile.gettempdir()) / f"specfleet-e2e-{name}.lock").open("w") as file:
        fcntl.flock(file, how)
        yield


# First, so that a test's time limit does not run while it waits for its turn.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    alone = item.get_closest_marker("alone") is not None
    with ExitStack() as held:
        # Who waits to be alone holds the turn: others would else follow each other for ever.
        with locked("turn", fcntl.LOCK_EX):
            held.enter_context(locked("cluster", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        return (yield)


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
    with locked("release", fcntl.LOCK_EX):
        # A demo leaves its fleet, which asks for the CPU that the tests' pods need.
        kube.run("delete", "namespace", "specfleet-demo", "--ignore-not-found", "--wait")
        release.upgrade()
    release.rolled_out("prometheus")
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
