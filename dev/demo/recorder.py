"""What happened, sample by sample: the pods' counters, the resource's status, restarts, pushes.

A sample is a plain mapping that goes into the report as it is. What could not be read in one moment is
missing from that sample, with the reason under "problem"; nothing is filled in.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from dev.demo.counters import read_page
from dev.demo.installation import NAMESPACE, OPERATOR_PORT, SYSTEM
from dev.demo.kubernetes import Api, metrics_path, pods_path, resource_path
from dev.demo.plan import Plan

Sample = dict[str, Any]
_OPERATOR = "app.kubernetes.io/component=operator"


class Recorder:
    """Samples at a fixed pace until it is cancelled. ``stage`` is set by whoever runs the phases."""

    def __init__(self, api: Api, plan: Plan, users: Callable[[], int]) -> None:
        self._api = api
        self._plan = plan
        self._users = users
        self.stage = "start"
        self.samples: list[Sample] = []
        self.seen: list[Callable[[Sample], None]] = []

    async def run(self) -> None:
        """Take samples for ever."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self.take()
            due = max(due + self._plan.sample_seconds, loop.time())
            await asyncio.sleep(due - loop.time())

    async def until(self, holds: Callable[[Sample], bool], seconds: float) -> None:
        """Wait for a sample of which this holds, but no longer than that."""
        seen = asyncio.Event()

        def look(sample: Sample) -> None:
            if holds(sample):
                seen.set()

        self.seen.append(look)
        try:
            async with asyncio.timeout(seconds):
                await seen.wait()
        except TimeoutError:
            return
        finally:
            self.seen.remove(look)

    async def take(self) -> Sample:
        """Take one sample now."""
        sample: Sample = {"stage": self.stage, "users": self._users(), "pods": {}, "restarts": {}}
        try:
            await self._engines(sample)
            await self._status(sample)
            await self._operator(sample)
        except (aiohttp.ClientError, TimeoutError, KeyError) as error:
            sample["problem"] = f"{type(error).__name__}: {error}"
        sample.setdefault("time", time.time())
        self.samples.append(sample)
        for tell in tuple(self.seen):
            tell(sample)
        return sample

    async def _engines(self, sample: Sample) -> None:
        selector = f"specfleet.dev/deployment={self._plan.resource}"
        pods = _serving(await self._api.get(pods_path(NAMESPACE, selector)), sample)
        pages = await asyncio.gather(*(self._pages(pod) for pod in pods))
        sample["time"] = time.time()
        names = (pod["metadata"]["name"] for pod in pods)
        sample["pods"] = {name: read_page(page) for name, page in zip(names, pages, strict=True)}

    async def _pages(self, pod: Mapping[str, Any]) -> str:
        """Read what an engine shows on all of its ports: a plug-in has one of its own."""
        paths = [metrics_path(NAMESPACE, pod["metadata"]["name"], port) for port in engine_ports(pod)]
        return "\n".join(await asyncio.gather(*map(self._api.text, paths)))

    async def _status(self, sample: Sample) -> None:
        resource = await self._api.get(resource_path(NAMESPACE, self._plan.resource))
        status = resource.get("status", {})
        keys = ("state", "schedule", "probe", "lastDecision", "measured", "fault")
        for pool in status.get("pools", ()):
            if pool["name"] == self._plan.pool:
                sample["pool"] = {key: pool[key] for key in keys if key in pool}
        sample["conditions"] = {
            condition["type"]: {key: condition.get(key) for key in ("status", "reason", "message")}
            for condition in status.get("conditions", ())
        }

    async def _operator(self, sample: Sample) -> None:
        for pod in _serving(await self._api.get(pods_path(SYSTEM, _OPERATOR)), sample):
            path = metrics_path(SYSTEM, pod["metadata"]["name"], OPERATOR_PORT)
            page = read_page(await self._api.text(path))
            sample["schedulePushes"] = page.get("schedulePushes", {})


def engine_ports(pod: Mapping[str, Any]) -> list[int]:
    """Give the ports of the pod's engine."""
    containers = (one for one in pod["spec"]["containers"] if one["name"] == "engine")
    return [port["containerPort"] for container in containers for port in container["ports"]]


def _serving(pods: Mapping[str, Any], sample: Sample) -> list[Mapping[str, Any]]:
    """Note each pod's restarts under its uid, so that a replaced pod shows too; give the pods that run."""
    serving = []
    for pod in pods["items"]:
        statuses = pod.get("status", {}).get("containerStatuses", ())
        sample["restarts"][pod["metadata"]["uid"]] = sum(status["restartCount"] for status in statuses)
        if any(status.get("ready") for status in statuses):
            serving.append(pod)
    return serving
