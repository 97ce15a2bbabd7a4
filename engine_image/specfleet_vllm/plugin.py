"""The plug-in on one scheduler: follows the file, counts the steps, and never lets an error through."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Concatenate, ParamSpec
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server

from specfleet_serving.follower import ScheduleFollower
from specfleet_vllm.compatibility import NotLive, Unfit, check_engine, check_start
from specfleet_vllm.engine import Deliveries, ModelOutput, Scheduled, Scheduler
from specfleet_vllm.metrics import PluginMetrics
from specfleet_vllm.steps import Steps

logger = logging.getLogger(__name__)

FILE = "SPECFLEET_SCHEDULE_FILE"
PORT = "SPECFLEET_METRICS_PORT"
DEFAULT_PORT = "9404"

P = ParamSpec("P")


def contained(hook: Callable[Concatenate["Plugin", P], None]) -> Callable[Concatenate["Plugin", P], None]:
    """Let a hook that raises switch the plug-in off, and the engine go on with the depths it has."""

    @wraps(hook)
    def guarded(plugin: "Plugin", /, *arguments: P.args, **named: P.kwargs) -> None:
        if plugin.counting:
            try:
                hook(plugin, *arguments, **named)
            except Exception:  # whatever it is, users must get their text
                logger.exception("the plug-in failed and is off; the engine keeps the depths that it has")
                plugin.switch_off(NotLive.PLUGIN_FAILED)

    return guarded


class Plugin:
    """What the scheduler's subclass calls around vLLM's own methods. No method raises."""

    def __init__(
        self,
        scheduler: Scheduler,
        version: str,
        step_names: Collection[str],
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        max_depth = getattr(scheduler, "num_spec_tokens", 0)
        self.metrics = PluginMetrics(max_depth)
        self.counting = False
        self._clock = clock
        self._scheduling: tuple[frozenset[str], float] = (frozenset(), 0.0)
        self._room: dict[str, int] = {}
        self._follower: ScheduleFollower | None = None
        self._server: WSGIServer | None = None
        self._lookups: list[list[int]] = []
        try:
            check_engine(version, scheduler, step_names)
            self._steps = Steps(self.metrics, max_depth)
            self.counting = True
            own, file = check_start(scheduler.dynamic_sd_lookup, environment.get(FILE))
        except Unfit as unfit:
            logger.error("the schedule file is not followed (%s): %s", unfit.reason, unfit)
            self.metrics.report_live(unfit.reason)
            return
        self._lookups = [[depth] * len(own) for depth in range(max_depth + 1)]
        schedule = self.metrics.schedule
        # Reported when accepted: an idle engine runs no step that could take it over, and its next one does.
        self._follower = ScheduleFollower(
            file, own[1], max_depth, schedule.count_refused, schedule.count_schedule
        )
        schedule.count_schedule(self._follower.in_force)
        self.metrics.report_live(None)
        self._follower.start()

    @contained
    def before_schedule(self, scheduler: Scheduler) -> None:
        """Put the depth for the next step where vLLM looks for it."""
        decoding = frozenset(one.request_id for one in scheduler.running if not one.is_prefill_chunk)
        self._scheduling = (decoding, self._clock())
        if self._follower is not None:
            self._follower.swap()
            # Until there is a file that can be followed, vLLM's own schedule stays.
            if self._follower.has_file:
                scheduler.dynamic_sd_lookup = self._lookups[self._follower.depth_for(len(decoding))]

    @contained
    def after_schedule(self, step: Scheduled) -> None:
        """Note what was scheduled."""
        self._steps.scheduled(step, *self._scheduling)

    @contained
    def before_update(self, scheduler: Scheduler, step: Scheduled) -> None:
        """Note what the requests may still get, before vLLM gives them the step's tokens."""
        self._room = self._steps.room(step, scheduler.requests)

    @contained
    def after_update(
        self,
        scheduler: Scheduler,
        delivered: Mapping[int, Deliveries],
        step: Scheduled,
        output: ModelOutput,
    ) -> None:
        """Count the step that ended."""
        busy = scheduler.get_num_unfinished_requests() > 0
        self._steps.ended(step, output, delivered, self._room, busy, self._clock())

    def serve_metrics(self, port: str) -> None:
        """Serve the page. Without its port the engine serves on, unseen, and the log says so."""
        try:
            self._server, _ = start_http_server(int(port), registry=self.metrics.registry)
        except (ValueError, OverflowError, OSError) as error:
            logger.error("no metrics of the plug-in on port %s: %s", port, error)

    def switch_off(self, reason: NotLive) -> None:
        """Do nothing any more, and say why."""
        self.counting = False
        self.metrics.report_live(reason)
        if self._follower is not None:
            self._follower.stop()
            # The last depth stays, which is not the table that was pushed.
            self.metrics.schedule.forget_schedule()

    def close(self) -> None:
        """End the threads."""
        if self._follower is not None:
            self._follower.stop()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
