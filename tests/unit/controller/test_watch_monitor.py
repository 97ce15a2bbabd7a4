"""Which events ask for work, and what proves that a watch is dead."""

import asyncio
from typing import Any

import pytest
from tests.fake_time import in_fake_time

from specfleet.api.kinds import Object
from specfleet.controller.watch_monitor import WatchMonitor


def a_body(version: int, *, generation: int = 1, **status: Any) -> Object:
    return {
        "metadata": {"uid": "u1", "resourceVersion": str(version), "generation": generation},
        "status": status,
    }


@pytest.mark.parametrize(
    ("event_type", "body", "asks"),
    [
        pytest.param("MODIFIED", a_body(2), False, id="same-again"),
        pytest.param("MODIFIED", a_body(2, ready="1/1"), False, id="status-moved"),
        pytest.param("MODIFIED", a_body(2, generation=2), True, id="spec-changed"),
        pytest.param(
            "MODIFIED", a_body(2, pools=[{"name": "main", "fault": {"reason": "x"}}]), True, id="fault"
        ),
        pytest.param("DELETED", a_body(2), True, id="deleted"),
        pytest.param(None, a_body(1), True, id="listed-again"),
    ],
)
def test_only_what_reconcile_reacts_to_asks_for_work(
    event_type: str | None, body: Object, asks: bool
) -> None:
    @in_fake_time
    async def check() -> None:
        monitor = WatchMonitor()
        assert monitor.delivered("ADDED", a_body(1))
        assert monitor.delivered(event_type, body) is asks

    check()


@in_fake_time
async def test_hard_off_asks_for_work_when_it_begins_and_ends_and_not_for_its_words() -> None:
    monitor = WatchMonitor()
    in_force = {"phase": "InForce", "proposer": "p1"}

    def of(version: int, **said: Any) -> Object:
        return a_body(version, pools=[{"name": "main", **said}])

    monitor.delivered("ADDED", of(1))

    assert monitor.delivered("MODIFIED", of(2, hardOff={**in_force, "reason": "a trial"}))
    assert not monitor.delivered("MODIFIED", of(3, hardOff={**in_force, "reason": "a pause"}))
    assert monitor.delivered("MODIFIED", of(4, hardOff={**in_force, "proposer": "p2"}))
    assert monitor.delivered("MODIFIED", of(5))


@in_fake_time
async def test_a_listed_change_that_no_event_brings_grows_old() -> None:
    monitor = WatchMonitor()
    monitor.delivered("ADDED", a_body(1))
    await asyncio.sleep(10)

    monitor.compare([a_body(2)], list_started=10)
    await asyncio.sleep(300)

    assert monitor.silent_seconds == 300


@in_fake_time
async def test_a_late_event_clears_the_watch() -> None:
    monitor = WatchMonitor()
    monitor.delivered("ADDED", a_body(1))
    await asyncio.sleep(10)
    monitor.compare([a_body(2)], list_started=10)

    monitor.delivered("MODIFIED", a_body(2))
    await asyncio.sleep(300)

    assert monitor.silent_seconds == 0


@in_fake_time
async def test_an_event_that_overtakes_the_list_proves_nothing() -> None:
    monitor = WatchMonitor()
    await asyncio.sleep(10)
    monitor.delivered("MODIFIED", a_body(3))

    monitor.compare([a_body(2)], list_started=5)
    await asyncio.sleep(300)

    assert monitor.silent_seconds == 0


@in_fake_time
async def test_quiet_is_not_dead() -> None:
    monitor = WatchMonitor()
    monitor.delivered("ADDED", a_body(1))
    for _ in range(10):
        await asyncio.sleep(600)
        monitor.compare([a_body(1)], list_started=asyncio.get_running_loop().time())

    assert monitor.silent_seconds == 0


@in_fake_time
async def test_an_object_that_is_gone_is_forgotten() -> None:
    monitor = WatchMonitor()
    monitor.delivered("ADDED", a_body(1))
    await asyncio.sleep(10)
    monitor.compare([a_body(2)], list_started=10)

    await asyncio.sleep(10)
    monitor.compare([], list_started=20)
    await asyncio.sleep(300)

    assert monitor.silent_seconds == 0
