"""The cluster as the demo uses it: kubectl and helm as a user calls them, and a proxy for frequent reads.

Everything but the load goes through the API server, so that a run does not care which cluster it is.
"""

import asyncio
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
from dev.demo.errors import DemoError

_SERVING = re.compile(rb"127\.0\.0\.1:(\d+)")
CALL_SECONDS = 10.0


async def call(program: str, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl or helm and give what it printed. Raises DemoError with its message."""
    if (path := shutil.which(program)) is None:
        raise DemoError(f"{program} is not on PATH: start the demo with `make demo`")
    process = await asyncio.create_subprocess_exec(
        path,
        *arguments,
        stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate(stdin.encode() if stdin is not None else None)
    if process.returncode:
        raise DemoError(f"{program} {' '.join(arguments[:4])}: {error.decode().strip()}")
    return out.decode()


class Background:
    """A kubectl that serves until the end, such as `kubectl proxy`; gives the port that it printed."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> int:
        self._process = await asyncio.create_subprocess_exec(
            "kubectl",
            *self._arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(CALL_SECONDS):
            line = await self._process.stdout.readline()
        if (found := _SERVING.search(line)) is None:
            raise DemoError(f"kubectl {self._arguments[0]} did not start")
        return int(found.group(1))

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()


class Api:
    """Reads and patches through `kubectl proxy`."""

    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._session = session

    async def get(self, path: str) -> dict[str, Any]:
        """Read one object or list. Raises aiohttp.ClientError or TimeoutError."""
        return dict(json.loads(await self.text(path)))

    async def text(self, path: str) -> str:
        """Read any page, such as a pod's metrics through the API server."""
        async with asyncio.timeout(CALL_SECONDS), self._session.get(self._base + path) as answer:
            answer.raise_for_status()
            return await answer.text()

    async def merge(self, path: str, patch: Mapping[str, Any]) -> None:
        """Patch an object as `kubectl patch --type=merge` does."""
        headers = {"Content-Type": "application/merge-patch+json"}
        async with (
            asyncio.timeout(CALL_SECONDS),
            self._session.patch(self._base + path, data=json.dumps(patch), headers=headers) as answer,
        ):
            if answer.status >= 400:
                raise DemoError(f"PATCH {path}: {answer.status} {await answer.text()}")


def resource_path(namespace: str, name: str) -> str:
    """Where the API serves a SpeculativeDeployment."""
    return f"/apis/specfleet.dev/v1alpha1/namespaces/{namespace}/speculativedeployments/{name}"


def pods_path(namespace: str, selector: str) -> str:
    """Where the API lists pods."""
    return f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"


def metrics_path(namespace: str, pod: str, port: int) -> str:
    """Where the API server reaches a pod's metrics."""
    return f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics"


def image_values(references: Path) -> list[str]:
    """Give helm's arguments for the images that were built; the chart's defaults hold for the others."""
    if not references.is_file():
        return []
    built = json.loads(references.read_text(encoding="utf-8"))
    keys = {
        "operator": "image",
        "engine": "engineImages.builtin",
        "simulated": "engineImages.simulated",
        "vllm-cpu": "engineImages.vllm",
        "vllm-plugin": "engineImages.vllmPlugin",
        "prometheus": "prometheus.image",
    }
    return [
        part
        for name, key in keys.items()
        if name in built
        for part in ("--set-string", f"{key}={built[name]}")
    ]
