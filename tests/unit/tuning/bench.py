"""A small closed loop: a pod with known step cost and acceptance, and the tuner that sees only its counters.

Each scrape interval is one draw of counts, so an hour takes a moment. The true cost has a sharper knee and a
larger cost per request than the tuner's priors.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from specfleet.api.configuration import TuningPace
from specfleet.api.objectives import EffectiveObjectives, EffectiveTuning
from specfleet.api.schedule import Document, Table, depth_for, flat
from specfleet.tuning.decide import Outcome, decide
from specfleet.tuning.decision import EndProbe, HardOff, LoadProposer, Probe, Push
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.interval import Counts, PodInterval
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings

POD = ("llm", "chat-0")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
APPLY_SECONDS = 2.0
RESTLESS_SECONDS = 300.0


@dataclass(frozen=True)
class Traffic:
    """``users`` at once; one drafts in ``draft_share`` of its steps, tokens are taken by ``chance``."""

    users: int
    chance: float
    draft_share: float = 1.0


REPETITIVE = Traffic(users=1, chance=0.9)
FREE = Traffic(users=1, chance=0.3, draft_share=0.1)
CROWD = Traffic(users=24, chance=0.5, draft_share=0.6)


@dataclass(frozen=True)
class Cost:
    """Seconds; ``knee`` in tokens of a step. ``tax``: share that a loaded proposer adds at depth 0."""

    base: float = 0.03
    knee: float = 14.0
    overhead: float = 0.004
    per_request: float = 0.0008
    draft: float = 0.0015
    per_depth: float = 0.0005
    tax: float = 0.0

    def seconds(self, batch: float, tokens: float, depth: int, *, loaded: bool = True) -> float:
        blend = (self.base**6 + (self.base / self.knee * tokens) ** 6) ** (1 / 6)
        draft = self.draft + self.per_depth * depth if depth else 0.0
        tax = self.tax if loaded and not depth else 0.0
        return (self.overhead + blend + self.per_request * batch + draft) * (1 + tax)


def some_settings(
    *,
    mode: str = "Enforce",
    paused: bool = False,
    pin: Table | None = None,
    most: int = 6,
    scrape: float = 15.0,
    pace: TuningPace | None = None,
) -> PoolSettings:
    return PoolSettings(
        objectives=EffectiveObjectives(None, 2.0, 1.0, 0.1),
        tuning=EffectiveTuning(mode, paused, "default", most, pin),  # type: ignore[arg-type]
        pace=pace or TuningPace(scrape_interval_seconds=scrape),
        initial_depth=2,
        max_depth=5,
        max_requests=16,
    )


@dataclass
class Bench:
    """``traffic`` may be changed between `run` calls. ``history`` has (time, decision, accepted table)."""

    traffic: Traffic
    settings: PoolSettings = field(default_factory=some_settings)
    cost: Cost = field(default_factory=Cost)
    seed: int = 1
    noise: float = 0.03
    drift: float = 0.0
    restless: float = 0.0  # sd of ln(level): a shared machine, good for some minutes
    kv_usage: float = 0.3
    replicas: int | None = None
    preemptions: float = 0.0
    broken: Callable[[Evidence], Evidence] = lambda evidence: evidence
    ignores_pushes: bool = False
    obeys: Callable[[Table, int], int] = depth_for

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now = 1_000_000.0
        self.document = Document(1, 1, 5, flat(2), EPOCH)
        self.in_force = self.document
        self.memory = Memory()
        self.outcomes: list[tuple[float, Outcome]] = []
        self.depth_seconds: list[tuple[float, int, float]] = []
        self.level = 1.0
        self.wave = 0.0
        self.machine = 0.0
        self.loaded = True

    def run(self, seconds: float) -> "Bench":
        end = self.now + seconds
        while self.now < end:
            self.step()
        return self

    def step(self) -> Outcome:
        scrape = self.settings.scrape_seconds
        start, version = self.now, (self.in_force.fence, self.in_force.version)
        parts = [(self.in_force, scrape)]
        if self.in_force != self.document and not self.ignores_pushes:
            parts = [(self.in_force, APPLY_SECONDS), (self.document, scrape - APPLY_SECONDS)]
            self.in_force = self.document
        self.now += scrape
        interval = PodInterval(
            pod=POD,
            start=start,
            end=self.now,
            counts=self._counts(parts),
            version_at_start=version,
            version=(self.in_force.fence, self.in_force.version),
            running=min(self.traffic.users, 16),
            waiting=max(0, self.traffic.users - 16),
            kv_usage=self.kv_usage,
        )
        pods = frozenset({POD})
        evidence = self.broken(
            Evidence(
                self.document,
                frozenset({"f" if self.loaded else "f-without"}),
                pods,
                pods,
                frozenset(),
                (interval,),
                {POD: interval.version},
                replicas=self.replicas,
            )
        )
        outcome = decide(self.settings, evidence, self.memory, self.now)
        self.memory = outcome.memory
        if isinstance(outcome.decision, Push | Probe | EndProbe):
            table = outcome.decision.table
            self.document = Document(self.document.version + 1, 1, 5, table, EPOCH)
        if isinstance(outcome.decision, HardOff | LoadProposer):
            self.loaded = isinstance(outcome.decision, LoadProposer)
        self.outcomes.append((self.now, outcome))
        return outcome

    def _counts(self, parts: list[tuple[Document, float]]) -> Counts:
        users, draw = self.traffic.users, self.random
        self.wave = 0.8 * self.wave + draw.gauss(0.0, 0.25)
        self.level = max(0.5, self.level * (1.0 + draw.gauss(0.0, self.drift)))
        kept = math.exp(-self.settings.scrape_seconds / RESTLESS_SECONDS)
        self.machine = kept * self.machine + math.sqrt(1 - kept**2) * draw.gauss(0.0, self.restless)
        chance = min(0.98, max(0.02, self.traffic.chance + 0.08 * self.wave))
        totals: dict[str, dict[int, float]] = {
            name: {}
            for name in ("steps", "step_seconds", "sequence_steps", "draft_positions", "accepted_positions")
        }
        tokens = 0.0
        for document, seconds in parts:
            if users == 0:
                break
            batch = min(users, 16)
            depth = self.obeys(document.table, batch) if self.loaded else 0
            drafts = self.traffic.draft_share * depth
            step = self.cost.seconds(batch, batch * (1 + drafts), depth, loaded=self.loaded)
            step *= self.level * math.exp(self.machine)
            step *= 1.0 + draw.gauss(0.0, self.noise)
            steps = float(int(seconds / step))
            _add(totals["steps"], depth, steps)
            _add(totals["step_seconds"], depth, steps * step)
            _add(totals["sequence_steps"], depth, steps * batch)
            self.depth_seconds.append((self.now, depth, seconds))
            drafted = round(steps * batch * self.traffic.draft_share)
            alive = drafted
            for position in range(1, depth + 1):
                alive = _binomial(draw, alive, chance)
                _add(totals["draft_positions"], position, drafted)
                _add(totals["accepted_positions"], position, alive)
                tokens += alive
            tokens += steps * batch
        drafted_tokens = sum(totals["draft_positions"].values())
        return Counts(
            **totals,
            drafts=totals["draft_positions"].get(1, 0.0),
            draft_tokens=drafted_tokens,
            accepted_tokens=sum(totals["accepted_positions"].values()),
            generation_tokens=tokens,
            first_tokens=0.0,
            inter_token_seconds=sum(totals["step_seconds"].values()) * min(users, 16),
            inter_token_events=tokens,
            preemptions=self.preemptions,
            completions=tokens / 64,
        )

    # What an oracle knows.

    def true_rate(self, depth: int) -> float:
        batch, traffic = min(self.traffic.users, 16), self.traffic
        tokens = 1 + traffic.draft_share * sum(traffic.chance**i for i in range(1, depth + 1))
        return tokens / self.cost.seconds(batch, batch * (1 + traffic.draft_share * depth), depth)

    def best_depth(self) -> int:
        return max((0, 1, 2, 3, 5), key=self.true_rate)

    @property
    def table(self) -> Table:
        return self.memory.probe.back_to if self.memory.probe else self.document.table

    @property
    def depth(self) -> int:
        return depth_for(self.table, min(self.traffic.users, 16))

    @property
    def share_of_best(self) -> float:
        return self.true_rate(self.depth) / self.true_rate(self.best_depth())

    def lost_since(self, start: float) -> float:
        """Share of the output that the best depth would have brought, of this traffic."""
        best = self.true_rate(self.best_depth())
        spans = [(depth, seconds) for at, depth, seconds in self.depth_seconds if at > start]
        return 1 - sum(s * self.true_rate(d) for d, s in spans) / (best * sum(s for _, s in spans))

    def decisions(self, kind: type) -> list[tuple[float, object]]:
        return [(at, o.decision) for at, o in self.outcomes if isinstance(o.decision, kind)]


def _add(totals: dict[int, float], key: int, value: float) -> None:
    totals[key] = totals.get(key, 0.0) + value


def _binomial(draw: random.Random, n: int, chance: float) -> int:
    spread = (n * chance * (1 - chance)) ** 0.5
    return max(0, min(n, round(draw.gauss(n * chance, 1.5 * spread))))
