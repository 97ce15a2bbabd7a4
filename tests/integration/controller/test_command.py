"""`python -m specfleet operator` as a process of its own: log in, lead, stop, refuse what it cannot use."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.integration.controller.builders import a_resource
from tests.integration.controller.test_process import WATCHES, eventually, server
from tests.integration.fake_api import FakeServer

from specfleet.api.kinds import DEPLOYMENT, SPECULATIVE_DEPLOYMENT
from specfleet.cluster.lease import LEASE

__all__ = ["server"]

START_SECONDS = 60.0  # importing kopf alone takes seconds on a busy machine
CONFIGURATION = {
    "images": {"builtin": "builtin:1", "simulated": "simulated:1"},
    "healthPort": 0,
    "metricsSources": {"default": {"url": "http://127.0.0.1:9"}},
}


def write(path: Path, content: object) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def a_kubeconfig(path: Path, server: FakeServer) -> Path:
    return write(
        path,
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": server.url}}],
            "users": [{"name": "fake", "user": {"token": "secret-token"}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        },
    )


async def start(*arguments: str | Path) -> asyncio.subprocess.Process:
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specfleet", "operator", *map(str, arguments)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


@pytest.fixture
async def operator(server: FakeServer, tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    config = write(tmp_path / "config.yaml", CONFIGURATION)
    process = await start("--config", config, "--kubeconfig", a_kubeconfig(tmp_path / "kubeconfig", server))
    yield process
    if process.returncode is None:
        process.kill()
        await process.wait()


async def test_sigterm_ends_it_with_0_and_frees_the_lease(
    server: FakeServer, operator: asyncio.subprocess.Process
) -> None:
    server.store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await eventually(lambda: bool(server.store.list(DEPLOYMENT, "llm")), seconds=START_SECONDS)

    operator.send_signal(signal.SIGTERM)
    _, errors = await asyncio.wait_for(operator.communicate(), START_SECONDS)

    assert operator.returncode == 0
    lease = server.store.get(LEASE, "default", "specfleet-operator")
    assert lease["spec"]["holderIdentity"] == ""
    lines = [json.loads(line) for line in errors.decode().splitlines()]
    assert {"message", "severity", "timestamp"} <= lines[0].keys()
    assert "secret-token" not in errors.decode()


async def test_a_lost_lease_ends_it_at_once_with_3(
    server: FakeServer, operator: asyncio.subprocess.Process
) -> None:
    await eventually(lambda: server.watchers == WATCHES, seconds=START_SECONDS)

    server.store.merge_patch(LEASE, "default", "specfleet-operator", {"spec": {"holderIdentity": "thief"}})
    _, errors = await asyncio.wait_for(operator.communicate(), START_SECONDS)

    assert operator.returncode == 3
    assert "the lease is lost" in errors.decode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param({"unknown": 1}, "unknown", id="unknown-key"),
        pytest.param({}, "images: Field required", id="missing-key"),
        pytest.param([1, 2], "the file", id="not-a-mapping"),
    ],
)
async def test_a_bad_configuration_ends_it_with_1_and_names_the_key(
    tmp_path: Path, content: object, message: str
) -> None:
    process = await start("--config", write(tmp_path / "config.yaml", content))

    _, errors = await asyncio.wait_for(process.communicate(), START_SECONDS)

    assert process.returncode == 1
    assert message in errors.decode()


async def test_without_a_cluster_it_says_what_is_missing(tmp_path: Path) -> None:
    process = await start("--config", write(tmp_path / "config.yaml", CONFIGURATION))

    _, errors = await asyncio.wait_for(process.communicate(), START_SECONDS)

    assert process.returncode == 1
    assert "--kubeconfig" in errors.decode()
