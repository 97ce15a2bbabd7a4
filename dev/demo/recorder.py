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
from dev.demo.installation import ENGINE_PORT, NAMESPACE, OPERATOR_PORT, SYSTEM
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
        names = _restarts(await self._api.get(pods_path(NAMESPACE, selector)), sample)
        pages = await asyncio.gather(
            *(self._api.text(metrics_path(NAMESPACE, name, ENGINE_PORT)) for name in names)
        )
        sample["time"] = time.time()
        sample["pods"] = {name: read_page(page) for name, page in zip(names, pages, strict=True)}

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
        for name in _restarts(await self._api.get(pods_path(SYSTEM, _OPERATOR)), sample):
            page = read_page(await self._api.text(metrics_path(SYSTEM, name, OPERATOR_PORT)))
            sample["schedulePushes"] = page.get("schedulePushes", {})


def _restarts(pods: Mapping[str, Any], sample: Sample) -> list[str]:
    """Note each pod's restarts under its uid, so that a replaced pod shows too; give the names that run."""
    names = []
    for pod in pods["items"]:
        statuses = pod.get("status", {}).get("containerStatuses", ())
        sample["restarts"][pod["metadata"]["uid"]] = sum(status["restartCount"] for status in statuses)
        if any(status.get("ready") for status in statuses):
            names.append(pod["metadata"]["name"])
    return names
