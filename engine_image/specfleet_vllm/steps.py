"""What the steps were: the depth they verified, the requests that decoded, their time, their drafts.

A step of vLLM verifies drafts that the step before it made, so its depth is the one that step was given. Its
time runs from the end of the step before, or from its own scheduling where the engine had nothing to do; with
asynchronous scheduling, where the next step is scheduled while one runs, this is the time that the step adds.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from specfleet_vllm.engine import Deliveries, ModelOutput, Request, Scheduled
from specfleet_vllm.metrics import PluginMetrics


@dataclass(frozen=True, slots=True)
class _Started:
    """A step between its scheduling and its end. ``decoding`` are the ids of requests past their prompt."""

    step: Scheduled
    depth: int
    decoding: frozenset[str]
    at: float


class Steps:
    """Counts the steps of one scheduler, which end in the order in which they were scheduled."""

    def __init__(self, metrics: PluginMetrics, depth: int) -> None:
        self._metrics = metrics
        self._depth = depth  # of the drafts that the next step verifies
        self._started: deque[_Started] = deque()
        self._last_end: float | None = None  # None: the engine had nothing to do since

    def scheduled(self, step: Scheduled, decoding: frozenset[str], at: float) -> None:
        """Note a step whose scheduling began ``at`` a time, in seconds of a monotonic clock."""
        ids = decoding & step.num_scheduled_tokens.keys()
        self._started.append(_Started(step, self._depth, ids, at))
        if step.num_scheduled_tokens:
            self._depth = step.num_spec_tokens_to_schedule

    def room(self, step: Scheduled, requests: Mapping[str, Request]) -> dict[str, int]:
        """Give how many tokens each request of a step may still get. Ask before vLLM counts the step's."""
        ids = step.scheduled_spec_decode_tokens
        found = ((one, requests.get(one)) for one in ids)
        return {one: request.max_tokens - request.num_output_tokens for one, request in found if request}

    def ended(
        self,
        step: Scheduled,
        output: ModelOutput,
        delivered: Mapping[int, Deliveries],
        room: Mapping[str, int],
        busy: bool,
        now: float,
    ) -> None:
        """Count a step at its end. ``busy``: unfinished requests are left, so that the next step follows."""
        started = self._take(step)
        begun = started.at if self._last_end is None else self._last_end
        self._last_end = now if busy else None
        got = {one.request_id: len(one.new_token_ids) for each in delivered.values() for one in each.outputs}
        # A request that ended while its next step ran already gets nothing from that one.
        decoding = sum(1 for one in started.decoding if got.get(one))
        if decoding:
            self._metrics.schedule.count_step(started.depth, decoding, now - begun)
        self._metrics.count_drafts(
            [draft(step, output, one, kept, room[one]) for one, kept in got.items() if kept and one in room]
        )

    def _take(self, step: Scheduled) -> _Started:
        while True:
            # Steps that never ended (a failed one) are forgotten here.
            started = self._started.popleft()
            if started.step is step:
                return started


def draft(step: Scheduled, output: ModelOutput, request: str, kept: int, room: int) -> tuple[int, int]:
    """Give the proposed and the accepted tokens of one request in a step, both cut at the request's end.

    ``kept`` tokens were delivered. Drafts past the end could not be, so they count neither as proposed nor as
    accepted, as in specfleet's own engines. vLLM counts both.
    """
    given = len(output.sampled_token_ids[output.req_id_to_index[request]])
    invalid = (step.num_invalid_spec_tokens or {}).get(request, 0)
    reach = kept if kept < given else room
    drafted = len(step.scheduled_spec_decode_tokens[request]) - invalid
    return min(drafted, reach), min(given - 1, reach)
