"""The judgement after the run: each phase's prompts again, with pinned depths and with the settled schedules.

The arms of a phase take turns, so that whatever else the machine does hurts all of them alike. First all of
them, until the best pinned depth is picked; then that one and what was settled on, side by side. A pin is the
user's own `spec.tuning.schedule`; an arm begins when every pod follows it. A settled schedule that asks for
one depth, whatever the phase's load, is that depth's arm: one thing is not measured under two names.

One user sends every prompt in each turn. Many users go on all the time while the arms take short turns, by
the pods' counters: the machine's speed moves within a minute, so neighbours must be near in time, and pods
that fill and empty in each turn would show another load than the phase's.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import mean
from typing import Any, TypeAlias, TypeVar

import aiohttp
from dev.demo.counters import difference
from dev.demo.errors import DemoError
from dev.demo.installation import NAMESPACE
from dev.demo.kubernetes import Api, resource_path
from dev.demo.load import Load, Request
from dev.demo.plan import Phase, Plan
from dev.demo.prompts import prompts_for
from dev.demo.recorder import Recorder
from dev.demo.scores import Part, best_pinned

T = TypeVar("T")
Table = list[dict[str, int]]
PIN_SECONDS = 60.0
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Arm:
    """One table, to be tried on the prompts of one sort of text. ``name``: depth-K, or settled-PHASE."""

    name: str
    table: Table


# Gives what the entry of an arm's turn says beside its counters.
Turn: TypeAlias = Callable[[Arm, Phase], Awaitable[dict[str, Any]]]


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
        try:
            for phases in groups.values():
                stand_ins = settled_arms(self._plan.depths, phases, settled)
                self.settled_arms |= {name: arm.name for name, arm in stand_ins.items()}
                if phases[0].users == 1:
                    await self._rounds(list(stand_ins.values()), phases[0], self._once)
                else:
                    await self._under_load(list(stand_ins.values()), phases[0])
        finally:
            await self._pin(None)

    async def _under_load(self, stand_ins: Sequence[Arm], phase: Phase) -> None:
        """Give the texts of depth 0 first: a request that meets several turns has none of its own."""
        prompts = prompts_for(phase.text)
        off = pinned_arms((0,))[0]
        await self._begin(off, phase)
        first = len(self._load.requests)
        await self._load.run_once(f"{phase.name}/{off.name}", phase, prompts)
        tokens = mean(request.tokens for request in self._load.requests[first:])
        async with self._load.under_way(replace(phase, name=f"{phase.name}/turns"), prompts):
            await asyncio.sleep(phase.users * phase.join_seconds)
            await self._rounds(stand_ins, phase, partial(self._turn, tokens))

    async def _rounds(self, stand_ins: Sequence[Arm], phase: Phase, turn: Turn) -> None:
        """Let all arms take turns, then the best pinned depth and what was settled on."""
        pinned, rounds = pinned_arms(self._plan.depths), self._plan.rounds(phase)
        await self._take_turns(_distinct(*pinned, *stand_ins), phase, turn, "picking", rounds.picking)
        best = best_pinned(self.results, phase.text, phase.users, [arm.name for arm in pinned])
        finalists = _distinct(*(arm for arm in pinned if arm.name == best), *stand_ins)
        if len(finalists) > 1:
            await self._take_turns(finalists, phase, turn, "judging", rounds.judging)

    async def _take_turns(
        self, arms: Sequence[Arm], phase: Phase, turn: Turn, part: Part, rounds: int
    ) -> None:
        for number in range(rounds):
            # There and back, back and there: a machine that slows down must favour no arm.
            for arm in arms if number % 4 in (0, 3) else reversed(arms):
                await self._begin(arm, phase)
                before = await self._recorder.take()
                found = await turn(arm, phase)
                window = difference(before, await self._recorder.take())
                self.results.append(
                    {
                        "text": phase.text,
                        "users": phase.users,
                        "arm": arm.name,
                        "table": arm.table,
                        "part": part,
                        "round": number,
                        "counters": asdict(window),
                        **found,
                    }
                )

    async def _begin(self, arm: Arm, phase: Phase) -> None:
        self._recorder.stage = f"replay/{phase.name}/{arm.name}"
        await self._pin(arm.table)
        await self._followed(arm)

    async def _once(self, arm: Arm, phase: Phase) -> dict[str, Any]:
        """Send every prompt once; give what their user saw."""
        first = len(self._load.requests)
        await self._load.run_once(f"{phase.name}/{arm.name}", phase, prompts_for(phase.text))
        done = self._load.requests[first:]
        return {
            "tokens": sum(request.tokens for request in done),
            "requestSeconds": sum(_seconds(request) for request in done),
            "secondsPerToken": {
                request.prompt: _seconds(request) / request.tokens for request in done if request.tokens
            },
        }

    async def _turn(self, tokens: float, arm: Arm, phase: Phase) -> dict[str, Any]:
        """Let the load go on; a request is so many tokens."""
        await asyncio.sleep(self._plan.rounds(phase).turn_seconds)
        return {"tokensPerRequest": tokens}

    async def _pin(self, table: Table | None) -> None:
        path = resource_path(NAMESPACE, self._plan.resource)
        patch = {"spec": {"tuning": {"schedule": table}}}
        await self._retried(f"PATCH {path}", lambda: self._api.merge(path, patch))

    async def _followed(self, arm: Arm) -> None:
        """Wait until the schedule is written and every pod reports its version."""
        name = f"{self._plan.resource}-{self._plan.pool}-active-schedule"
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"
        deadline = time.monotonic() + PIN_SECONDS
        while time.monotonic() < deadline:
            read = await self._retried(f"GET {path}", lambda: self._api.get(path))
            document = json.loads(read["data"]["schedule.json"])
            if document["table"] == arm.table:
                sample = await self._recorder.take()
                versions = {pod.get("scheduleVersion") for pod in sample["pods"].values()}
                if versions == {document["version"]}:
                    return
            await asyncio.sleep(POLL_SECONDS)
        raise DemoError(
            f"the pin {arm.table} was not followed within {PIN_SECONDS:.0f} s: "
            f"see `kubectl -n {NAMESPACE} describe specdep {self._plan.resource}`"
        )

    async def _retried(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it is answered: half an hour of measuring must not end with one lost answer."""
        deadline = time.monotonic() + PIN_SECONDS
        while True:
            try:
                return await call()
            except (aiohttp.ClientError, TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise DemoError(f"{what}: {type(error).__name__} {error}") from error
            await asyncio.sleep(POLL_SECONDS)


def _distinct(*arms: Arm) -> list[Arm]:
    return list({arm.name: arm for arm in arms}.values())


def _seconds(request: Request) -> float:
    return (request.ended or request.sent) - request.sent
