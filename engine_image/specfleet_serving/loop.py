"""The step loop: the one thread that touches a core.

Requests come in through `submit` and leave as `Output` through the ``deliver`` callback, one batch per step.
The thread takes what came in, swaps the schedule, picks the depth, lets the core take one step, trims each
request to its end, counts what users got, and hands it out. A step that raises costs the requests of its
batch, never the loop; only a core that does not answer the engine itself either ends it (`self_check`).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from specfleet_serving.active import Active, Output, taken
from specfleet_serving.core import Core, Request, Step, StepFailed, Tokenizer
from specfleet_serving.events import Delivered, Outcome
from specfleet_serving.follower import ScheduleFollower
from specfleet_serving.metrics import Metrics
from specfleet_serving.self_check import SelfCheck
from specfleet_serving.text import Assembler

logger = logging.getLogger(__name__)

# How long an idle loop sleeps before it looks for a new schedule.
IDLE_SECONDS = 0.25
# From one failed self-check to the next. Nobody waits for them, and a restart reads all weights again.
CHECK_SECONDS = 5.0

Deliver = Callable[[Sequence[Output]], None]


class StepLoop:
    """Runs one core. `submit`, `cancel` and the properties may be used from any thread."""

    def __init__(
        self, core: Core, tokenizer: Tokenizer, follower: ScheduleFollower, metrics: Metrics, deliver: Deliver
    ) -> None:
        self._core = core
        self._tokenizer = tokenizer
        self._follower = follower
        self._metrics = metrics
        self._deliver = deliver
        self._active: dict[str, Active] = {}
        self._inbox: deque[Active | str] = deque()  # a request to add, or the id of one to forget
        self._changed = threading.Condition()
        self._stopping = False
        self._warm = False
        self._check = SelfCheck(core, tokenizer, metrics, self._timed_step)
        self._step_began: float | None = None
        self._thread = threading.Thread(target=self._run, name="step-loop", daemon=True)
        self._queued = 0

    def start(self) -> None:
        """Begin with the warm-up, then serve."""
        self._thread.start()

    def stop(self) -> None:
        """End the loop after the step that runs. What is still active gets an error."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def submit(self, request: Request) -> None:
        """Queue a request; its outputs come through ``deliver``."""
        before = request.prompt if request.continues else ()
        assembler = Assembler(self._tokenizer, request.sampling, before)
        active = Active(request, assembler, time.monotonic())
        with self._changed:
            self._inbox.append(active)
            self._queued += 1
            self._changed.notify()

    def cancel(self, request_id: str) -> None:
        """Forget a request before the next step. One that is done or unknown is fine."""
        with self._changed:
            self._inbox.append(request_id)
            self._changed.notify()

    @property
    def warm(self) -> bool:
        """Whether the core has generated tokens since the start."""
        return self._warm

    @property
    def alive(self) -> bool:
        """Whether the thread still runs. False for good after a failed warm-up, and once the core is dead."""
        return self._thread.is_alive()

    @property
    def in_doubt(self) -> bool:
        """Whether several steps failed and none has decoded since."""
        return self._check.in_doubt

    @property
    def queued(self) -> int:
        """How many requests no step has admitted yet."""
        return self._queued

    @property
    def stalled_seconds(self) -> float:
        """How long the step that runs now has been running; 0 between steps."""
        began = self._step_began
        return 0.0 if began is None else time.monotonic() - began

    def _run(self) -> None:
        self._metrics.count_schedule(self._follower.in_force)
        try:
            self._check.warm_up()
        except Exception:  # a core may fail in any way; the process then says so and ends
            logger.exception("the model did not answer the warm-up request")
            return
        self._warm = True
        while not self._stopping and not self._check.dead:
            self._take_inbox()
            self._follow_schedule()
            if self._active:
                self._advance()
            elif not self._check.unsure:
                self._rest()
            elif not self._check.repeat(self._follower.depth_for(1)):
                self._pause()
        self._take_inbox()
        self._fail(list(self._active.values()))
        self._metrics.count_load(self._core.load())

    def _timed_step(self, depth: int) -> Step | None:
        self._step_began = time.monotonic()
        try:
            return self._core.step(depth)
        finally:
            self._step_began = None

    def _take_inbox(self) -> None:
        with self._changed:
            news = list(self._inbox)
            self._inbox.clear()
        for item in news:
            if isinstance(item, str):
                if active := self._active.get(item):
                    self._leave(active, "abort")
            else:
                self._add(item)
        if news:
            self._metrics.count_load(self._core.load())

    def _add(self, active: Active) -> None:
        self._active[active.request.id] = active
        try:
            self._core.add(active.request)
        except Exception:
            # One bad request must not end the loop, which serves all others.
            logger.exception("the core does not take a request; it gets an error")
            self._fail([active])

    def _follow_schedule(self) -> None:
        before = self._follower.in_force
        self._follower.swap()
        if self._follower.in_force is not before:
            self._metrics.count_schedule(self._follower.in_force)

    def _rest(self) -> None:
        with self._changed:
            if not self._inbox and not self._stopping:
                self._changed.wait(IDLE_SECONDS)

    def _pause(self) -> None:
        if not self._check.dead:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, CHECK_SECONDS)

    def _advance(self) -> None:
        began = time.monotonic()
        try:
            step = self._timed_step(self._follower.depth_for(self._core.load().decoding))
            outputs = self._absorb(step, began) if step else []
        except StepFailed as failed:
            # A broken batch must not end the service (reference/engine-faults.md, row 44). A newcomer that
            # broke it goes with it, before it can break the next one too.
            logger.exception("a step failed; the requests of its batch get an error")
            self._check.lose_step()
            self._fail([self._active[one] for one in failed.requests if one in self._active])
        except Exception:
            logger.exception("the engine failed between two steps; all requests get an error")
            self._check.lose_step()
            self._fail(list(self._active.values()))
        else:
            if step is not None:
                self._check.note(step)
            self._deliver(outputs)
            if step is None:
                self._rest()
        self._metrics.count_load(self._core.load())

    def _absorb(self, step: Step, began: float) -> list[Output]:
        now = time.monotonic()
        for request_id in step.admitted:
            active = self._active.get(request_id)
            if active and active.admitted is None:
                active.admitted = began
                self._unqueue()
        delivered: list[Delivered] = []
        outputs: list[Output] = []
        finished: list[tuple[Active, Outcome]] = []
        lost: list[Active] = []
        for sequence in step.sequences:
            active = self._active.get(sequence.request_id)
            if active is None or not (sequence.tokens or sequence.failed):
                continue
            first = active.first_token is None
            if (got := taken(active, sequence, now)) is None:
                lost.append(active)
                continue
            if first:
                self._metrics.requests.count_first_token(now - active.arrived)
            delivered.append(got[0])
            outputs.append(got[1])
            if got[1].finish:
                finished.append((active, got[1].finish))
        self._metrics.count_step(step, delivered)
        for active, outcome in finished:
            self._leave(active, outcome)
        if lost:
            logger.error("%d requests of a step have no usable tokens; they get an error", len(lost))
            self._fail(lost)
        return outputs

    def _leave(self, active: Active, outcome: Outcome) -> None:
        self._core.remove(active.request.id)
        del self._active[active.request.id]
        if active.admitted is None:
            self._unqueue()
        self._metrics.requests.count_finished(outcome, active.times(), time.monotonic())

    def _unqueue(self) -> None:
        with self._changed:
            self._queued -= 1

    def _fail(self, lost: Sequence[Active]) -> None:
        for active in lost:
            self._leave(active, "error")
        self._deliver([Output(active.request.id, (), "", "error") for active in lost])
