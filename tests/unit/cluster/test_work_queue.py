"""The rules of the work queue, in fake time. Numbers: reference guide, section 2.3."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.fake_time import in_fake_time

from specfleet.cluster.work_queue import Backoff, WorkerDied, WorkQueue

Work = Callable[[str], Awaitable[float | None]]


class Runs:
    """Records when each key ran; ``fails`` says which runs raise."""

    def __init__(self, *, takes: float = 0.0, again: float | None = None, fails: int = 0) -> None:
        self.at: list[tuple[str, float]] = []
        self.takes, self.again, self.fails = takes, again, fails

    async def __call__(self, key: str) -> float | None:
        self.at.append((key, asyncio.get_running_loop().time()))
        await asyncio.sleep(self.takes)
        if self.fails:
            self.fails -= 1
            raise ValueError("broken")
        return self.again

    @property
    def times(self) -> list[float]:
        return [at for _, at in self.at]

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.at]


def a_queue(work: Work, *, workers: int = 8, timeout: float = 60.0) -> WorkQueue[str]:
    return WorkQueue(
        work,
        group=lambda key: key.split("/")[0],
        workers=workers,
        backoff=Backoff(jitter=0.0),
        timeout_seconds=timeout,
        generator=random.Random(1),
    )


@asynccontextmanager
async def serving(queue: WorkQueue[str]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(queue.run())
    try:
        yield task
    finally:
        queue.stop()
        await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_many_adds_before_a_worker_is_free_are_one_run() -> None:
    runs = Runs()
    queue = a_queue(runs)
    for _ in range(500):
        queue.add("llm/chat")

    async with serving(queue):
        await asyncio.sleep(1)

    assert runs.keys == ["llm/chat"]


@in_fake_time
async def test_an_add_during_a_run_means_one_more_run_and_never_two_at_once() -> None:
    runs = Runs(takes=10)
    queue = a_queue(runs)

    async with serving(queue):
        queue.add("llm/chat")
        await asyncio.sleep(5)
        queue.add("llm/chat")
        queue.add("llm/chat")
        await asyncio.sleep(60)

    assert runs.times == [0, 10]


@in_fake_time
async def test_a_failing_key_backs_off_from_half_a_second_to_five_minutes() -> None:
    runs = Runs(fails=13)
    queue = a_queue(runs)

    async with serving(queue):
        queue.add("llm/chat")
        await asyncio.sleep(1500)

    waits = [later - earlier for earlier, later in zip(runs.times, runs.times[1:], strict=False)]
    assert waits == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300])


@in_fake_time
async def test_a_success_resets_the_back_off() -> None:
    runs = Runs(fails=3)
    queue = a_queue(runs)
    async with serving(queue):
        queue.add("llm/chat")
        await asyncio.sleep(10)
        runs.fails = 1
        queue.add("llm/chat")
        await asyncio.sleep(10)

    assert runs.times[-1] - runs.times[-2] == pytest.approx(0.5)


@in_fake_time
async def test_an_event_does_not_cut_a_back_off_short() -> None:
    runs = Runs(fails=5)
    queue = a_queue(runs)

    async with serving(queue):
        queue.add("llm/chat", revision=1)
        for _ in range(20):
            await asyncio.sleep(0.1)
            queue.add("llm/chat", revision=1)
            queue.add("llm/chat", delay_seconds=0.01)

    assert runs.times == pytest.approx([0, 0.5, 1.5])


@in_fake_time
async def test_a_new_revision_cuts_a_back_off_short() -> None:
    runs = Runs(fails=8)
    queue = a_queue(runs)

    async with serving(queue):
        queue.add("llm/chat", revision=1)
        await asyncio.sleep(20)
        seen = len(runs.at)
        queue.add("llm/chat", revision=2)
        await asyncio.sleep(0.1)

    assert len(runs.at) == seen + 1


@in_fake_time
async def test_a_new_revision_during_a_failing_run_is_tried_at_once() -> None:
    runs = Runs(takes=5, fails=1)
    queue = a_queue(runs)

    async with serving(queue):
        queue.add("llm/chat", revision=1)
        await asyncio.sleep(1)
        queue.add("llm/chat", revision=2)
        await asyncio.sleep(20)

    assert runs.times == [0, 5]


@in_fake_time
async def test_a_success_runs_again_after_the_seconds_that_it_asked_for() -> None:
    runs = Runs(again=600)
    queue = a_queue(runs)

    async with serving(queue):
        queue.add("llm/chat")
        await asyncio.sleep(1300)

    assert runs.times == [0, 600, 1200]


@in_fake_time
async def test_of_two_delays_the_earlier_wins_and_an_add_cancels_both() -> None:
    runs = Runs()
    queue = a_queue(runs)

    async with serving(queue):
        queue.add("llm/chat", delay_seconds=50)
        queue.add("llm/chat", delay_seconds=5)
        queue.add("llm/chat", delay_seconds=20)
        await asyncio.sleep(100)
        queue.add("llm/chat", delay_seconds=50)
        queue.add("llm/chat")
        await asyncio.sleep(100)

    assert runs.times == [5, 100]


@in_fake_time
async def test_a_run_that_takes_too_long_counts_as_a_failure() -> None:
    runs = Runs(takes=1000)
    queue = a_queue(runs, timeout=60)

    async with serving(queue):
        queue.add("llm/chat")
        await asyncio.sleep(61)
        assert queue.retries == 1

    assert runs.times == [0, 60.5]


@in_fake_time
async def test_namespaces_take_turns() -> None:
    runs = Runs(takes=1)
    queue = a_queue(runs, workers=1)
    for number in range(4):
        queue.add(f"greedy/{number}")
    queue.add("modest/0")

    async with serving(queue):
        await asyncio.sleep(10)

    assert runs.keys.index("modest/0") == 1


@in_fake_time
async def test_a_run_with_a_cancelled_sub_task_is_a_failure_and_the_worker_lives_on() -> None:
    async def work(key: str) -> None:
        part = asyncio.create_task(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(part.cancel)
        await part

    queue = a_queue(work, workers=1)

    async with serving(queue) as task:
        queue.add("llm/chat")
        await asyncio.sleep(1)
        assert not task.done()

    assert queue.retries >= 1


class Fatal(BaseException):
    """What no worker may swallow."""


@in_fake_time
async def test_what_is_no_ordinary_exception_ends_the_whole_queue() -> None:
    async def work(key: str) -> None:
        raise Fatal

    queue = a_queue(work)
    queue.add("llm/chat")

    with pytest.raises(Fatal):
        await queue.run()


@in_fake_time
async def test_a_worker_that_just_ends_ends_the_whole_queue() -> None:
    queue = a_queue(Runs())
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    worker = next(found for found in asyncio.all_tasks() if found.get_name() == "worker-3")

    worker.cancel()

    with pytest.raises((WorkerDied, asyncio.CancelledError)):
        await task


@in_fake_time
async def test_a_stop_lets_running_keys_finish_and_starts_no_other() -> None:
    runs = Runs(takes=5)
    queue = a_queue(runs, workers=1)
    queue.add("llm/one")
    queue.add("llm/two")
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(1)

    queue.stop()
    await task

    assert runs.keys == ["llm/one"]
    assert asyncio.get_running_loop().time() == 5


@in_fake_time
async def test_the_queue_is_stalled_only_while_keys_wait_and_none_finishes() -> None:
    runs = Runs(takes=50)
    queue = a_queue(runs, workers=1)
    async with serving(queue):
        queue.add("llm/one")
        await asyncio.sleep(40)
        assert queue.stalled_seconds == 0
        queue.add("llm/two")
        await asyncio.sleep(9)
        assert queue.stalled_seconds == 9
        assert queue.depth == 1
        await asyncio.sleep(2)
        assert queue.stalled_seconds == 0


@in_fake_time
async def test_a_key_that_is_done_for_good_is_forgotten() -> None:
    queue = a_queue(Runs(again=None))
    async with serving(queue):
        queue.add("llm/chat")
        await asyncio.sleep(1)

    assert queue.keys == frozenset()


def test_jitter_spreads_the_back_off_by_a_fifth() -> None:
    backoff = Backoff()

    assert backoff.seconds(1, -1.0) == pytest.approx(0.4)
    assert backoff.seconds(1, 1.0) == pytest.approx(0.6)
    assert backoff.seconds(100_000, 1.0) == pytest.approx(360)
