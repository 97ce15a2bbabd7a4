"""What ends a run before its end is told in its own words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from dev.demo import run
from dev.demo.errors import DemoError
from dev.demo.load import Load
from dev.demo.plan import PLANS
from dev.demo.recorder import Recorder

PLAN = replace(
    PLANS["simulated"], phases=tuple(replace(one, seconds=0.0) for one in PLANS["simulated"].phases)
)


class Loads:
    """No load."""

    @asynccontextmanager
    async def under_way(self, *_: Any) -> AsyncIterator[None]:
        yield


class Records:
    """No samples, for ever."""

    stage = ""

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_a_failure_while_samples_are_taken_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut(*_: Any) -> None:
        raise DemoError("kubectl wait: timed out")

    monkeypatch.setattr(run, "cut_prometheus", cut)

    with pytest.raises(DemoError, match="kubectl wait: timed out"):
        await run._recorded(PLAN, cast("Load", Loads()), cast("Recorder", Records()), {"phases": []})
