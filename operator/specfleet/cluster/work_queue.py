"""The work queue: events and timers put keys in, a few workers take them out, one run per key at a time.

It stands between kopf's handlers (which only add keys) and reconcile (which does all the work), and is the
only place where a failure of any kind is turned into a retry. Rules: reference guide, section 2.3.
"""

import asyncio
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from specfleet.cluster.errors import ClusterError

K = TypeVar("K", bound=Hashable)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds until a failed key runs again: doubling from first to longest, spread by jitter."""

    first_seconds: float = 0.5
    longest_seconds: float = 300.0
    jitter: float = 0.2

    def seconds(self, failures: int, spread: float) -> float:
        """Give the delay after that many failures in a row; ``spread`` is drawn from [-1, 1]."""
        # 2**16 is past any sensible longest; an unbounded power overflows after a day of failures.
        plain = min(self.first_seconds * 2.0 ** min(failures - 1, 16), self.longest_seconds)
        return plain * (1 + self.jitter * spread)


@dataclass(slots=True)
class _State:
    """What is known of one key between its first add and its last run."""

    ready_since: float | None = None
    running: bool = False
    dirty: bool = False
    renewed: bool = False
    timer: asyncio.TimerHandle | None = None
    failures: int = 0
    revision: Hashable = None


class WorkerDied(Exception):
    """A worker ended although nobody asked it to: the process must end too."""


class WorkQueue(Generic[K]):
    """Deduplicating queue with back-off per key and round robin between groups (namespaces).

    ``work`` returns the seconds until it wants to look at the key again; None: never by itself.
    ``finished`` is told the key, the run's seconds and its error, after every run.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        group: Callable[[K], str],
        finished: Callable[[K, float, Exception | None], None] = lambda key, seconds, error: None,
        workers: int = 8,
        timeout_seconds: float = 60.0,
        backoff: Backoff = Backoff(),
        generator: random.Random | None = None,
    ) -> None:
        self._work = work
        self._group = group
        self._finished = finished
        self._workers = workers
        self._timeout_seconds = timeout_seconds
        self._backoff = backoff
        self._random = generator or random.Random()
        self._states: dict[K, _State] = {}
        self._ready: OrderedDict[str, deque[K]] = OrderedDict()
        # One token for each ready key, so that exactly one worker wakes up for it.
        self._tokens: asyncio.Queue[None] = asyncio.Queue()
        self._stopping = False
        self.retries = 0
        self.last_finished: float | None = None

    def add(self, key: K, *, revision: Hashable = None, delay_seconds: float = 0.0) -> None:
        """Run the key soon, or once within ``delay_seconds``, so that a burst of hints becomes one run.

        Of two delays the earlier wins. A back-off is cut short only by another ``revision`` of what the user
        wrote (the fix): it must differ for each edit, and between two objects that have the name in turn.
        """
        state = self._states.setdefault(key, _State())
        renewed = revision is not None and revision != state.revision
        if revision is not None:
            state.revision = revision
        if state.running:
            state.dirty = True
            state.renewed = state.renewed or renewed
        elif renewed:
            state.failures = 0
            self._make_ready(key, state)
        elif state.failures == 0:
            self._sooner(key, state, delay_seconds)

    async def run(self) -> None:
        """Serve until `stop`. Raises WorkerDied, or what killed the worker."""
        tasks = {
            asyncio.create_task(self._serve(), name=f"worker-{number}") for number in range(self._workers)
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not self._stopping:
                for task in done:
                    task.result()
                raise WorkerDied("a worker of the work queue ended by itself")
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        """Let running keys finish and take no more. `run` then returns."""
        self._stopping = True
        for state in self._states.values():
            if state.timer is not None:
                state.timer.cancel()
        for _ in range(self._workers):
            self._tokens.put_nowait(None)

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return sum(len(keys) for keys in self._ready.values())

    @property
    def oldest_ready_seconds(self) -> float:
        """How long the longest-waiting ready key has waited; 0 when none waits."""
        waiting = [state.ready_since for state in self._states.values() if state.ready_since is not None]
        return asyncio.get_running_loop().time() - min(waiting) if waiting else 0.0

    @property
    def stalled_seconds(self) -> float:
        """For how long keys have waited while no run has finished; 0 when none waits."""
        since_finish = (
            float("inf")
            if self.last_finished is None
            else asyncio.get_running_loop().time() - self.last_finished
        )
        return min(self.oldest_ready_seconds, since_finish)

    @property
    def keys(self) -> frozenset[K]:
        """All keys that wait, run or will run again."""
        return frozenset(self._states)

    async def _serve(self) -> None:
        while True:
            await self._tokens.get()
            if self._stopping:
                return
            key = self._take()
            state = self._states[key]
            state.ready_since, state.running, state.dirty, state.renewed = None, True, False, False
            started = asyncio.get_running_loop().time()
            again, error = await self._attempt(key)
            now = asyncio.get_running_loop().time()
            state.running = False
            self.last_finished = now
            self._schedule(key, state, again, error)
            self._finished(key, now - started, error)

    async def _attempt(self, key: K) -> tuple[float | None, Exception | None]:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._work(key), None
        except asyncio.CancelledError:
            # A cancelled sub-task is a failure of the run; only our own cancellation ends the worker.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None, RuntimeError("a sub-task of the run was cancelled")
        except Exception as error:  # noqa: BLE001 - the one place where every failure becomes a retry
            return None, error

    def _schedule(self, key: K, state: _State, again: float | None, error: Exception | None) -> None:
        if error is not None:
            self._retry(key, state, error)
            return
        state.failures = 0
        if state.dirty:
            self._make_ready(key, state)
        elif again is not None:
            self._delay(key, state, again)
        else:
            del self._states[key]

    def _retry(self, key: K, state: _State, error: Exception) -> None:
        self.retries += 1
        if state.renewed:
            state.failures = 0
            self._make_ready(key, state)
            return
        state.failures += 1
        seconds = self._backoff.seconds(state.failures, self._random.uniform(-1, 1))
        logger.warning(
            "%s failed %d times in a row, again in %.1f s: %s: %s",
            *(key, state.failures, seconds, type(error).__name__, error),
            # Anything but a fault of the cluster is a bug, and its place matters.
            exc_info=None if isinstance(error, ClusterError | TimeoutError) else error,
        )
        self._delay(key, state, seconds)

    def _sooner(self, key: K, state: _State, seconds: float) -> None:
        if seconds <= 0:
            self._make_ready(key, state)
        elif state.ready_since is None and (
            state.timer is None or state.timer.when() > asyncio.get_running_loop().time() + seconds
        ):
            self._delay(key, state, seconds)

    def _delay(self, key: K, state: _State, seconds: float) -> None:
        if state.timer is not None:
            state.timer.cancel()
        state.timer = asyncio.get_running_loop().call_later(seconds, self._make_ready, key, state)

    def _make_ready(self, key: K, state: _State) -> None:
        if state.timer is not None:
            state.timer.cancel()
            state.timer = None
        if state.ready_since is None:
            state.ready_since = asyncio.get_running_loop().time()
            self._ready.setdefault(self._group(key), deque()).append(key)
            self._tokens.put_nowait(None)

    def _take(self) -> K:
        group, keys = next(iter(self._ready.items()))
        key = keys.popleft()
        # Served groups go to the end: one tenant with many keys cannot starve the others.
        del self._ready[group]
        if keys:
            self._ready[group] = keys
        return key
