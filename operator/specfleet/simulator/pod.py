"""One pod: its engines (one per data-parallel rank), its schedule file, its page for Prometheus."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from specfleet.api.schedule import Document, flat
from specfleet.simulator.cost import Cost
from specfleet.simulator.exposition import Gauges, Page
from specfleet.simulator.follower import Follower
from specfleet.simulator.scenario import Scenario, Slice
from specfleet.simulator.state import (
    HEAD,
    HITS,
    NOW,
    QUEUED,
    RUNNING,
    SAMPLE,
    USED,
    Engine,
    Requests,
    Rules,
    World,
    new_engine,
    new_trace,
    set_table,
)
from specfleet.simulator.steps import advance

NAMESPACE = "simulated"
WARM_SECONDS = 180.0  # until the prefix cache of a new pod is full


class Pod:
    """A pod of one slice. ``number`` counts the pods of the scenario from 0; times in seconds of the run."""

    def __init__(
        self, number: int, part: Slice, scenario: Scenario, rule: int, rho: float, document: Document
    ) -> None:
        self.number = number
        self.slice = part
        self._scenario, self._rule, self._rho = scenario, rule, rho
        self.name = f"{part.name}-{number}"
        self.ready = True
        self.started = 0.0
        self.lies = self.ignores = self.deaf = False
        self.rules = _rules(part, scenario, rule, rho)
        self.cost: Cost = scenario.cost._replace(slower=scenario.cost.slower * part.slower)
        self.follower = Follower(scenario.max_depth, document)
        self.engines: list[Engine] = []
        self.traces = [new_trace(scenario.seconds) for _ in range(scenario.limits.ranks)]
        self.former: list[tuple[Slice, np.ndarray]] = []
        self._pages: list[Page] = []

    def reload(self, loaded: bool) -> None:
        """Take a proposer in or out, before the next start. What it did so far is kept in ``former``."""
        if loaded == self.slice.loaded:
            return
        self.former.extend((self.slice, rows) for rows in self.traces)
        self.traces = [new_trace(self._scenario.seconds) for _ in self.traces]
        self.slice = replace(self.slice, loaded=loaded)
        self.rules = _rules(self.slice, self._scenario, self._rule, self._rho)

    def start(self, requests: int, seeds: Sequence[int], at: float, asked: Callable[[str], bool]) -> None:
        """Begin with empty engines and counters at 0. ``asked``: names of metrics to show."""
        self.engines = [
            new_engine(self.rules, requests, trace, seed, at)
            for trace, seed in zip(self.traces, seeds, strict=True)
        ]
        self._pages = [
            Page(self.rules.max_depth, self.rules.kv_tokens, rank, asked) for rank in range(len(self.engines))
        ]
        self.started, self.ready = at, True
        self.apply()

    def apply(self) -> None:
        """Put the table of the file in force, unless this engine is one that does not."""
        if self.ignores:
            table = flat(self.rules.max_depth)
        elif self.lies:
            return
        else:
            table = self.follower.document.table
        for engine in self.engines:
            set_table(engine, table)

    def advance(self, requests: Requests, incoming: np.ndarray, world: World, until: float) -> None:
        """Let the engines run until a moment, with the requests that arrive before it."""
        warm = min(1.0, (until - self.started) / WARM_SECONDS) if self.started > 0.0 else 1.0
        for rank, engine in enumerate(self.engines):
            engine.clock[HITS] = warm * self.slice.hit_share
            own = incoming[rank :: len(self.engines)]
            advance(engine, requests, own, self.rules, world, self.cost, until)

    def hang(self, until: float) -> None:
        """Let no step happen before a moment: requests wait, counters stand still."""
        for engine in self.engines:
            engine.clock[NOW] = max(engine.clock[NOW], until)
            engine.clock[SAMPLE] = max(engine.clock[SAMPLE], np.ceil(until))

    def lose_requests(self) -> np.ndarray:
        """Take the engines down and give the requests that were not finished."""
        lost: list[np.ndarray] = []
        for engine in self.engines:
            words = engine.words
            queued = (words[HEAD] + np.arange(words[QUEUED])) % len(engine.queue)
            lost.extend((engine.running[: words[RUNNING]].copy(), engine.queue[queued]))
        self.engines = []
        return np.sort(np.concatenate(lost)) if lost else np.zeros(0, np.int32)

    def gauges(self) -> tuple[Gauges, ...]:
        """Read the gauges of each rank."""
        return tuple(
            Gauges(
                running=float(engine.words[RUNNING]),
                waiting=float(engine.words[QUEUED]),
                kv_usage=self._kv_usage(engine),
            )
            for engine in self.engines
        )

    def page(self, gauges: tuple[Gauges, ...]) -> str:
        """Write the page of all ranks, as the exporter in front of them does."""
        document = self.follower.document
        return "".join(
            page.render(engine.counters, one, (document.fence, document.version), self.follower.rejected)
            for page, engine, one in zip(self._pages, self.engines, gauges, strict=True)
        )

    def _kv_usage(self, engine: Engine) -> float:
        held = engine.words[USED] + engine.words[RUNNING] * self.rules.lookahead
        return float(min(1.0, held / self.rules.kv_tokens))


def _rules(part: Slice, scenario: Scenario, rule: int, rho: float) -> Rules:
    limits, acceptance = scenario.limits, scenario.acceptance
    return Rules(
        max_requests=limits.max_requests,
        prefill_budget=limits.prefill_budget,
        kv_tokens=limits.kv_tokens_loaded if part.loaded else limits.kv_tokens,
        admit_share=limits.admit_share,
        lookahead=scenario.max_depth + 1 if part.loaded else 1,
        max_depth=scenario.max_depth,
        loaded=int(part.loaded),
        rule=rule,
        rho=rho,
        idle_share=acceptance.idle_share,
        variable=int(acceptance.variable),
        resume=acceptance.resume,
        trims=int(scenario.trims),
    )
