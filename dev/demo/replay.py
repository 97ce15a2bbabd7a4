"""The judgement after the run: each phase's prompts again, with pinned depths and with the settled schedules.

The arms of a phase take turns, so that whatever else the machine does hurts all of them alike. A pin is the
user's own `spec.tuning.schedule`; an arm begins when every pod follows it. A settled schedule that asks for
one depth, whatever the phase's load, is that depth's arm: one thing is not measured under two names.

Many users are compared while all of them are busy. When the prompts run out, ever fewer requests share the
pods: that is another load than the phase's, and the settled schedule may have another depth for it.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dev.demo.counters import difference
from dev.demo.errors import DemoError
from dev.demo.installation import NAMESPACE
from dev.demo.kubernetes import Api, resource_path
from dev.demo.load import Load, Request
from dev.demo.plan import Phase, Plan
from dev.demo.prompts import prompts_for
from dev.demo.recorder import Recorder

Table = list[dict[str, int]]
PIN_SECONDS = 60.0
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Arm:
    """One table, to be tried on the prompts of one sort of text. ``name``: depth-K, or settled-PHASE."""

    name: str
    table: Table


def pinned_arms(depths: Sequence[int]) -> list[Arm]:
    """Give an arm of one depth for each."""
    return [Arm(f"depth-{depth}", [{"depth": depth}]) for depth in depths]


def settled_arms(
    depths: Sequence[int], phases: Sequence[Phase], settled: Mapping[str, Table]
) -> dict[str, Arm]:
    """Give, for each phase that has settled, the arm that stands for its schedule."""
    pinned = pinned_arms(depths)
    found: dict[str, Arm] = {}
    for phase in phases:
        if phase.name not in settled:
            continue
        table = settled[phase.name]
        used = _rows_used(table, phase.users)
        alike = (arm for arm in (*pinned, *found.values()) if _rows_used(arm.table, phase.users) == used)
        found[phase.name] = next(alike, Arm(f"settled-{phase.name}", table))
    return found


def _rows_used(table: Table, users: int) -> list[int]:
    """The depth at each number of decoding requests that so many users can make."""
    return [
        next(row["depth"] for row in table if running <= row.get("maxRequests", running))
        for running in range(1, users + 1)
    ]


class Replay:
    """Runs all arms of a plan; `results` then holds one entry per arm and round."""

    def __init__(self, api: Api, plan: Plan, load: Load, recorder: Recorder) -> None:
        self._api = api
        self._plan = plan
        self._load = load
        self._recorder = recorder
        self.results: list[dict[str, Any]] = []
        self.settled_arms: dict[str, str] = {}  # by phase

    async def run(self, settled: Mapping[str, Table]) -> None:
        """Replay every phase. Phases with the same sort of text and the same users share the pinned arms."""
        groups: dict[tuple[str, int], list[Phase]] = {}
        for phase in self._plan.phases:
            groups.setdefault((phase.text, phase.users), []).append(phase)
        depths = self._plan.depths
        pinned = pinned_arms(depths)
        try:
            for phases in groups.values():
                stand_ins = settled_arms(depths, phases, settled)
                self.settled_arms |= {name: arm.name for name, arm in stand_ins.items()}
                arms = list({arm.name: arm for arm in (*pinned, *stand_ins.values())}.values())
                for number in range(self._plan.rounds):
                    # There and back, back and there: a machine that slows down must favour no arm, in
                    # neither half of the rounds.
                    for arm in arms if number % 4 in (0, 3) else reversed(arms):
                        await self._try(arm, phases[0], number)
        finally:
            await self._pin(None)

    async def _try(self, arm: Arm, phase: Phase, number: int) -> None:
        self._recorder.stage = f"replay/{phase.name}/{arm.name}"
        await self._pin(arm.table)
        await self._followed(arm)
        stage = f"{phase.name}/{arm.name}"
        before = await self._recorder.take()
        started, first = asyncio.get_running_loop().time(), len(self._load.requests)
        await self._load.run_once(stage, phase, prompts_for(phase.text) * phase.repeats)
        seconds = asyncio.get_running_loop().time() - started
        after = await self._recorder.take()
        done = self._load.requests[first:]
        busy = busy_span(done)
        self.results.append(
            {
                "text": phase.text,
                "users": phase.users,
                "arm": arm.name,
                "table": arm.table,
                "round": number,
                "seconds": seconds,
                "requests": len(done),
                "busySeconds": busy[0],
                "busyRequests": busy[1],
                "tokens": sum(request.tokens for request in done),
                "requestSeconds": sum(_seconds(request) for request in done),
                "secondsPerToken": {
                    request.prompt: _seconds(request) / request.tokens for request in done if request.tokens
                },
                "counters": asdict(difference(before, after)),
            }
        )

    async def _pin(self, table: Table | None) -> None:
        path = resource_path(NAMESPACE, self._plan.resource)
        await self._api.merge(path, {"spec": {"tuning": {"schedule": table}}})

    async def _followed(self, arm: Arm) -> None:
        """Wait until the schedule is written and every pod reports its version."""
        name = f"{self._plan.resource}-{self._plan.pool}-active-schedule"
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"
        try:
            async with asyncio.timeout(PIN_SECONDS):
                while True:
                    document = json.loads((await self._api.get(path))["data"]["schedule.json"])
                    if document["table"] == arm.table:
                        sample = await self._recorder.take()
                        versions = {pod.get("scheduleVersion") for pod in sample["pods"].values()}
                        if versions == {document["version"]}:
                            return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise DemoError(
                f"the pin {arm.table} was not followed within {PIN_SECONDS:.0f} s: "
                f"see `kubectl -n {NAMESPACE} describe specdep {self._plan.resource}`"
            ) from None


def busy_span(requests: Sequence[Request]) -> tuple[float, int]:
    """Give the seconds from the first request to the start of the last, and how many ended within them."""
    last = max(request.sent for request in requests)
    ended = sum(request.ended is not None and request.ended <= last for request in requests)
    return last - min(request.sent for request in requests), ended


def _seconds(request: Request) -> float:
    return (request.ended or request.sent) - request.sent
