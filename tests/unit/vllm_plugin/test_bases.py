"""What the plug-in stands on in vLLM: of a release that has moved or changed it, vLLM still serves."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.unit.vllm_plugin.conftest import Make
from tests.unit.vllm_plugin.standin import ModelOutput, Request, Scheduler, Step, advance, answer, write
from tests.unit.vllm_plugin.test_following import live, page

from specfleet_vllm.bases import scheduler_class, step_names
from specfleet_vllm.hooks import FollowsSchedule

Install = Callable[..., None]


class Plain:
    pass


class Asynchronous(Plain):
    pass


@dataclass
class Output:
    num_scheduled_tokens: dict[str, int]


class Config:
    """Asks as the method of 0.32 does: vllm/config/scheduler.py."""

    def get_scheduler_cls(self: Any) -> type:
        assert self.scheduler_cls is None
        return Asynchronous if self.async_scheduling else Plain


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put modules in vLLM's place."""

    def put(name: str, **names: Any) -> None:
        module = ModuleType(name)
        module.__path__ = []
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)

    for package in ("vllm", "vllm.v1", "vllm.v1.core", "vllm.v1.core.sched"):
        put(package)
    return put


def test_in_a_known_release_the_classes_are_those_of_their_modules(install: Install) -> None:
    install("vllm.v1.core.sched.scheduler", Scheduler=Plain)
    install("vllm.v1.core.sched.output", SchedulerOutput=Output)

    assert scheduler_class("scheduler", "Scheduler", asynchronous=False) is Plain
    assert step_names() == {"num_scheduled_tokens"}


@pytest.mark.parametrize("renamed", [True, False], ids=["another-name", "another-module"])
@pytest.mark.parametrize(("asynchronous", "expected"), [(True, Asynchronous), (False, Plain)])
def test_in_a_release_that_moved_them_they_are_those_that_vllm_would_take(
    install: Install, renamed: bool, asynchronous: bool, expected: type
) -> None:
    install("vllm.config", SchedulerConfig=Config)
    if renamed:
        install("vllm.v1.core.sched.scheduler", OtherScheduler=Plain)

    assert scheduler_class("scheduler", "Scheduler", asynchronous=asynchronous) is expected
    assert step_names() == frozenset()


class Moved(Scheduler):
    engine_version = "0.40.0"
    step_names = frozenset()


class Further:
    """A release whose method takes more, and is called with names."""

    def update_from_output(
        self, scheduler_output: Step, model_runner_output: ModelOutput, grammar: str = ""
    ) -> dict[int, Any]:
        assert grammar == "g"
        return super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc, no-any-return]


class TakesMore(FollowsSchedule, Further, Scheduler.__mro__[2]):  # type: ignore[misc]
    engine_version = "0.32.0"
    step_names = Scheduler.step_names


def test_a_release_that_is_not_known_serves_and_says_so_whatever_it_has_moved(make: Make, file: Path) -> None:
    write(file, [{"depth": 1}])

    scheduler = make(Moved, running=[Request("a")])

    assert advance(scheduler).num_spec_tokens_to_schedule == scheduler.num_spec_tokens
    assert live() == {"specfleet_schedule_live{reason=engine_version}": 0}


@pytest.mark.parametrize("by_name", [True, False])
def test_what_a_release_passes_beyond_the_two_outputs_reaches_it(
    make: Make, file: Path, by_name: bool
) -> None:
    write(file, [{"depth": 2}])
    scheduler = make(TakesMore, running=[Request("a")])

    for _ in range(3):
        step = scheduler.schedule()
        output = answer(step)
        if by_name:
            scheduler.update_from_output(scheduler_output=step, model_runner_output=output, grammar="g")
        else:
            scheduler.update_from_output(step, output, "g")

    assert live() == {"specfleet_schedule_live{reason=}": 1}
    assert page()["specfleet_steps_total{depth=2}"] > 0
