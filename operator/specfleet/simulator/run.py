"""One run: a scenario, a policy and a seed in; requests, traces and decisions out.

Events are scrapes, passes of the policy, files that reach pods, and faults, in the order of their time.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specfleet.api.schedule import Document
from specfleet.simulator.acceptance import Text, draw_text
from specfleet.simulator.capacity import hard_off_capacity
from specfleet.simulator.operator import DOWN_SECONDS, DRAIN_SECONDS, SimulatedOperator
from specfleet.simulator.pod import Pod
from specfleet.simulator.policy import Policy
from specfleet.simulator.pool import Pool
from specfleet.simulator.prometheus import SimulatedPrometheus
from specfleet.simulator.scenario import Fault, Scenario
from specfleet.simulator.state import Requests, World
from specfleet.simulator.traffic import draw_requests, prompts_per_output
from specfleet.telemetry.samples import Readings
from specfleet.tuning.decide import Outcome
from specfleet.tuning.decision import HardOff, LoadProposer

APPLY_SECONDS = (1.0, 10.0)  # from a push to the engine's look at the file
LONGEST_TAIL = 2 * 3600.0  # after the last arrival, for requests that are still served
TAIL_STEP = 60.0


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the policy at a second of the run: what it could read, and what it decided."""

    at: float
    readings: Readings
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class PodTrace:
    """What one engine did with or without a proposer, a row per second; NaN while it was down or otherwise.

    Columns: `specfleet.simulator.state`.
    """

    pod: str
    slice: str
    loaded: bool
    rows: np.ndarray


@dataclass(slots=True)
class Run:
    """All that happened. ``capacity``: completions/s of one pod without speculation, ``rho``: prompt tokens
    per output token after the prefix cache. ``documents``: (second, schedule) as they were written.
    ``prometheus`` holds the scrapes of the last minutes.
    """

    scenario: Scenario
    policy: str
    seed: int
    capacity: float
    rho: float
    text: Text
    requests: Requests
    passes: list[Pass] = field(default_factory=list)
    documents: list[tuple[float, Document]] = field(default_factory=list)
    traces: tuple[PodTrace, ...] = ()
    prometheus: SimulatedPrometheus = field(default_factory=SimulatedPrometheus)


def simulate(scenario: Scenario, policy: Policy, seed: int) -> Run:
    """Run a scenario under a policy. The seed fixes traffic, text, noise and luck, the policy none."""
    return _Simulation(scenario, policy, seed).finish()


class _Simulation:
    def __init__(self, scenario: Scenario, policy: Policy, seed: int) -> None:
        if not policy.loaded:
            scenario = replace(scenario, slices=tuple(replace(s, loaded=False) for s in scenario.slices))
        streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(5)]
        self._noise, self._telemetry, self._luck = streams[2:]
        text = draw_text(scenario.acceptance, scenario.seconds, streams[0])
        capacity = hard_off_capacity(scenario)
        rates = scenario.traffic.rates(scenario.seconds, capacity * scenario.pods, streams[1])
        requests = draw_requests(scenario.traffic, rates, text, streams[1])
        hits = float(np.mean([part.hit_share for part in scenario.slices]))
        rho = prompts_per_output(requests, hits)
        self._scenario = scenario
        self._prometheus = SimulatedPrometheus()
        self._operator = SimulatedOperator(scenario, policy, self._prometheus)
        self._run = Run(
            scenario, policy.name, seed, capacity, rho, text, requests, prometheus=self._prometheus
        )
        document = self._operator.document
        self._run.documents.append((0.0, document))
        pods: list[Pod] = []
        for part in scenario.slices:
            for _ in range(part.pods):
                own = document if part.table is None else replace(document, table=part.table)
                pods.append(Pod(len(pods), part, scenario, policy.rule, rho, own))
        world = World(scenario.acceptance.survivals(), text.factor, text.mean)
        self._pool = Pool(scenario, pods, requests, world, self._prometheus, self._luck)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self._names = itertools.count(len(pods))
        for pod in pods:
            self._start(pod, 0.0)
        self._plan()

    def finish(self) -> Run:
        """Handle all events, then let requests that are still served come to their end."""
        end = float(self._scenario.seconds)
        while self._events:
            at, _, event = heapq.heappop(self._events)
            event(at)
            end = max(end, at)
        until, arrivals = end, self._run.requests.finished
        while until <= end + LONGEST_TAIL and (until == end or np.isnan(arrivals).any()):
            for pod in self._pool.pods:
                self._pool.advance(pod, until)
            until += TAIL_STEP
        self._run.traces = tuple(
            PodTrace(pod.name, part.name, part.loaded, rows)
            for pod in self._pool.pods
            for part, rows in (*pod.former, *((pod.slice, rows) for rows in pod.traces))
        )
        return self._run

    def _plan(self) -> None:
        scrape = self._scenario.telemetry.scrape_seconds
        for pod in self._pool.pods:
            self._at(float(self._telemetry.uniform(0.0, scrape)), self._scraping(pod))
        self._at(float(self._telemetry.uniform(0.0, scrape)) + scrape, self._tick)
        for fault in self._scenario.faults:
            self._at(fault.start, self._breaking(fault))

    def _at(self, at: float, event: Callable[[float], None]) -> None:
        """Plan what ends with the scenario: traffic, scrapes, decisions, faults."""
        if at < self._scenario.seconds:
            self._surely_at(at, event)

    def _surely_at(self, at: float, event: Callable[[float], None]) -> None:
        """Plan what was begun and comes to its end in any case: a restart, a file on its way."""
        heapq.heappush(self._events, (at, next(self._order), event))

    def _scraping(self, pod: Pod) -> Callable[[float], None]:
        telemetry = self._scenario.telemetry

        def scrape(at: float) -> None:
            self._pool.scrape(pod, at)
            spread = telemetry.jitter * float(self._telemetry.uniform(-1.0, 1.0))
            self._at(at + telemetry.scrape_seconds * (1.0 + spread), scrape)

        return scrape

    def _tick(self, at: float) -> None:
        readings, outcome, document = self._operator.decide(self._pool.pods, at)
        self._run.passes.append(Pass(at, readings, outcome))
        if document is not None:
            self._run.documents.append((at, document))
            self._write(document.to_json(), at)
        if isinstance(outcome.decision, HardOff | LoadProposer):
            own = [pod for pod in self._pool.pods if pod.slice.table is None]
            self._roll(own, isinstance(outcome.decision, LoadProposer), at)
        self._at(at + self._scenario.telemetry.scrape_seconds, self._tick)

    def _roll(self, pods: Sequence[Pod], loaded: bool, at: float) -> None:
        """Restart pods one after another: drained, without capacity, then cold."""
        if not pods:
            return
        pod, *others = pods
        pod.ready = False

        def stop(now: float) -> None:
            self._restart(pod, now, now + DOWN_SECONDS, renamed=True, loaded=loaded)
            self._surely_at(now + DOWN_SECONDS, lambda then: self._roll(others, loaded, then))

        self._surely_at(at + DRAIN_SECONDS, stop)

    def _write(self, text: str, at: float, only: int | None = None) -> None:
        """Let a file reach the pods that follow the policy, each after a delay of its own."""
        for pod in self._pool.pods:
            delay = float(self._luck.uniform(*APPLY_SECONDS))
            if pod.slice.table is None and only in (None, pod.number):
                self._surely_at(at + delay, self._reaching(pod, text))

    def _reaching(self, pod: Pod, text: str) -> Callable[[float], None]:
        def reach(at: float) -> None:
            self._pool.advance(pod, at)
            self._pool.reach(pod, text)

        return reach

    def _start(self, pod: Pod, at: float) -> None:
        seeds = [int(self._noise.integers(2**62)) for _ in pod.traces]
        pod.start(len(self._run.requests.arrival), seeds, at, self._operator.asked)

    def _breaking(self, fault: Fault) -> Callable[[float], None]:
        def begin(at: float) -> None:
            for pod in self._pool.pods:
                if fault.pod in (None, pod.number):
                    self._break(pod, fault, at)

        return begin

    def _break(self, pod: Pod, fault: Fault, at: float) -> None:
        current = self._operator.document
        self._pool.advance(pod, at)
        match fault.kind:
            case "stuck":
                pod.hang(at + fault.seconds)
            case "crash" | "replaced":
                self._restart(
                    pod, at, at + (fault.seconds or DRAIN_SECONDS), renamed=fault.kind == "replaced"
                )
            case "rolled":
                self._roll([pod], pod.slice.loaded, at)
            case "deaf":
                pod.deaf = True
            case "lying":
                pod.lies = True
            case "ignoring":
                pod.ignores = True
                pod.apply()
            case "broken-file":
                self._pool.reach(pod, current.to_json()[:-20])
            case "old-file":
                self._pool.reach(pod, replace(current, version=current.version - 1).to_json())
            case "foreign-file":
                self._pool.reach(pod, replace(current, fence=current.fence - 1, version=10_000).to_json())

    def _restart(
        self, pod: Pod, at: float, back: float, *, renamed: bool, loaded: bool | None = None
    ) -> None:
        """Take a pod down until ``back``. ``loaded`` None: as it was."""
        self._pool.advance(pod, at)
        self._pool.stop(pod)

        def come_back(now: float) -> None:
            if loaded is not None:
                pod.reload(loaded)
            if renamed:
                pod.name = f"{pod.slice.name}-{next(self._names)}"
            if pod.slice.table is None:
                pod.follower.document = self._operator.document
            self._start(pod, now)

        self._surely_at(back, come_back)
