"""In which order the arms take turns, and what the load does meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import repeat
from typing import Any, cast

import aiohttp
import pytest
from dev.demo import replay as replay_module
from dev.demo.errors import DemoError
from dev.demo.kubernetes import Api
from dev.demo.load import Load, Request
from dev.demo.plan import PLANS, Phase, Plan, Rounds
from dev.demo.prompts import Prompt, prompts_for
from dev.demo.recorder import Recorder
from dev.demo.replay import Replay

ALONE = Phase("alone", "one user", "free", 1, 10.0, 40)
CROWD = Phase("crowd", "many users", "mixed", 20, 10.0, 40)
OTHER = [{"depth": 4}]
SPEED = {0: 100.0, 1: 110.0, 2: 130.0, 3: 120.0, 4: 125.0, 5: 90.0}  # tokens a second


class Cluster:
    """Pods that follow a pin at once, and give tokens while the crowd is there or a request is sent."""

    def __init__(self, lost_answers: Iterable[Exception] = ()) -> None:
        self._lost_answers = iter(lost_answers)
        self.pins: list[Any] = []
        self.busy = False
        self.requests: list[Request] = []
        self.stage = ""
        self._now = 0.0
        self._tokens = 0.0

    async def merge(self, path: str, body: dict[str, Any]) -> None:
        for error in self._lost_answers:
            raise error
        self.pins.append(body["spec"]["tuning"]["schedule"])

    async def get(self, path: str) -> dict[str, Any]:
        for error in self._lost_answers:
            raise error
        return {"data": {"schedule.json": json.dumps({"table": self.pins[-1], "version": len(self.pins)})}}

    async def take(self) -> dict[str, Any]:
        self._now += 1.0
        self._tokens += SPEED[self.pins[-1][-1]["depth"]] if self.busy else 0.0
        zero = dict.fromkeys(("firstTokens", "decodeSeconds", "queueSeconds", "queued"), 0.0)
        pod = {**zero, "generatedTokens": self._tokens, "steps": {}, "sequenceSteps": {}}
        return {"time": self._now, "pods": {"a": {**pod, "scheduleVersion": len(self.pins)}}}

    async def run_once(self, stage: str, phase: Phase, prompts: tuple[Prompt, ...]) -> None:
        seconds = 40 / SPEED[self.pins[-1][-1]["depth"]]
        self.requests += [
            Request(stage, prompt.name, sent=0.0, ended=seconds, tokens=40, text="x") for prompt in prompts
        ]

    @asynccontextmanager
    async def under_way(self, phase: Phase, prompts: tuple[Prompt, ...]) -> AsyncIterator[None]:
        self.busy = True
        yield
        self.busy = False


def replayed(
    plan: Plan, settled: dict[str, Any], lost_answers: Iterable[Exception] = ()
) -> tuple[Replay, Cluster]:
    cluster = Cluster(lost_answers)
    replay = Replay(cast("Api", cluster), plan, cast("Load", cluster), cast("Recorder", cluster))
    asyncio.run(replay.run(settled))
    return replay, cluster


def plan_of(phase: Phase) -> Plan:
    return replace(
        PLANS["builtin"],
        phases=(phase,),
        alone_rounds=Rounds(picking=1, judging=2),
        crowd_rounds=Rounds(picking=2, judging=2),
    )


def turns(replay: Replay, part: str) -> list[str]:
    return [one["arm"] for one in replay.results if one["part"] == part]


@pytest.mark.parametrize("phase", [ALONE, CROWD], ids=["one-user", "many-users"])
def test_all_arms_pick_the_best_pinned_depth_which_is_then_judged_beside_the_settled_schedule(
    phase: Phase,
) -> None:
    replay, cluster = replayed(plan_of(phase), {phase.name: OTHER})

    settled = f"settled-{phase.name}"
    assert set(turns(replay, "picking")) == {*(f"depth-{depth}" for depth in (0, 1, 2, 3, 5)), settled}
    assert turns(replay, "judging") == ["depth-2", settled, settled, "depth-2"]  # there and back
    assert cluster.pins[-1] is None


def test_what_is_the_best_pinned_depth_itself_needs_no_judging() -> None:
    replay, _ = replayed(plan_of(CROWD), {"crowd": [{"depth": 2}]})

    assert (replay.settled_arms, turns(replay, "judging")) == ({"crowd": "depth-2"}, [])


def test_many_users_go_on_while_arms_take_turns_and_have_their_texts_of_depth_zero_before() -> None:
    replay, cluster = replayed(plan_of(CROWD), {"crowd": OTHER})

    assert cluster.pins[0] == [{"depth": 0}]
    assert {request.stage for request in cluster.requests} == {"crowd/depth-0"}
    assert {request.prompt for request in cluster.requests} == {one.name for one in prompts_for("mixed")}
    # Between two samples of a turn lies a second, and a request is 40 tokens.
    assert {(one["arm"], one["counters"]["tokens"], one["tokensPerRequest"]) for one in replay.results} >= {
        ("depth-0", 100.0, 40), ("depth-2", 130.0, 40), ("depth-5", 90.0, 40),
    }  # fmt: skip


def test_a_lost_answer_of_the_api_server_does_not_end_the_replay() -> None:
    lost: list[Exception] = [aiohttp.ServerDisconnectedError(), TimeoutError(), aiohttp.ClientOSError()]

    undisturbed, _ = replayed(plan_of(ALONE), {})
    disturbed, _ = replayed(plan_of(ALONE), {}, lost)

    assert disturbed.results == undisturbed.results


def test_an_api_server_that_never_answers_is_told_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "PIN_SECONDS", 0.0)

    with pytest.raises(DemoError, match=r"PATCH /apis/.*: ServerDisconnectedError"):
        replayed(plan_of(ALONE), {}, repeat(aiohttp.ServerDisconnectedError()))
