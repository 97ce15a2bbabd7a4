"""What is simulated: one pool, its pods, its traffic, its text, its telemetry, and what goes wrong.

All values are frozen; a scenario and a seed give one run, always the same. Source: design/simulator.md.
"""

from dataclasses import dataclass, field
from typing import Literal

from specfleet.api.schedule import Table
from specfleet.simulator.acceptance import Acceptance
from specfleet.simulator.cost import Cost
from specfleet.simulator.layout import POSITIONS
from specfleet.simulator.traffic import Traffic

FaultKind = Literal[
    # Prometheus and its way to the pods
    "outage",  # no query is answered, nothing is scraped
    "not-scraped",  # queries are answered, no target is scraped
    "hung-exporter",  # one pod's scrapes fail
    "warning",  # every answer carries a warning
    "clock-skew",  # sample stamps are 30 s ahead of the operator's clock
    "nan",  # gauges read NaN
    "sticky-gauges",  # gauges keep their last value
    # pods
    "stuck",  # the engine's core hangs, its exporter does not: frozen counters
    "crash",  # the container restarts under its name: counters begin at 0
    "replaced",  # a new pod under a new name
    "rolled",  # drained, without capacity for 180 s, then a cold cache
    # schedule file
    "deaf",  # never sees another file
    "lying",  # reports the new version and uses the old table
    "ignoring",  # runs its deepest depth whatever the file says
    "broken-file",
    "old-file",
    "foreign-file",  # a file from a leader with a lower fence
]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong at ``start`` for ``seconds``; pods: ``pod`` counts them from 0, None is all of them."""

    kind: FaultKind
    start: float
    seconds: float = 0.0
    pod: int | None = None

    def holds(self, at: float, pod: int | None = None) -> bool:
        """Say whether it is going on, for a pod if one is named."""
        return self.start <= at < self.start + self.seconds and (self.pod is None or pod in (None, self.pod))


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Scrapes every ``scrape_seconds`` +- ``jitter``, of which the share ``lost`` fails."""

    scrape_seconds: float = 15.0
    jitter: float = 0.05
    lost: float = 0.02


@dataclass(frozen=True, slots=True)
class Limits:
    """What an engine can hold. KV capacity in tokens, without and with a proposer."""

    max_requests: int = 256
    prefill_budget: int = 2048
    kv_tokens: int = 448_000
    kv_tokens_loaded: int = 435_000
    admit_share: float = 0.97
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """Pods under one configuration. ``loaded`` False: hard-off, started without a proposer.

    ``table`` None: what the policy has in force; else this one, for canaries and static references.
    ``slower`` multiplies the pods' step times. ``hits``: share of shared prompt tokens that the prefix cache
    finds; by default .92 without and .71 with a proposer (vllm-project/vllm#38182).
    """

    name: str = "active"
    pods: int = 1
    loaded: bool = True
    table: Table | None = None
    slower: float = 1.0
    hits: float | None = None

    @property
    def hit_share(self) -> float:
        return self.hits if self.hits is not None else (0.71 if self.loaded else 0.92)


@dataclass(frozen=True, slots=True)
class Service:
    """What users were promised, in seconds; above ``long_prompt`` tokens the first token may take longer."""

    first_token: float = 2.0
    long_first_token: float = 6.0
    long_prompt: int = 6000
    token: float = 0.045


@dataclass(frozen=True, slots=True)
class Scenario:
    """One pool over ``seconds``. ``trims`` False: drafts past a request's end are counted, as vLLM does."""

    name: str
    seconds: int = 4 * 3600
    cost: Cost = field(default_factory=Cost)
    acceptance: Acceptance = field(default_factory=Acceptance)
    traffic: Traffic = field(default_factory=Traffic)
    telemetry: Telemetry = field(default_factory=Telemetry)
    limits: Limits = field(default_factory=Limits)
    slices: tuple[Slice, ...] = (Slice(),)
    faults: tuple[Fault, ...] = ()
    service: Service = field(default_factory=Service)
    initial_depth: int = 2
    max_depth: int = 5
    trims: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.max_depth <= POSITIONS or not 0 <= self.initial_depth <= self.max_depth:
            raise ValueError(f"depths lie in 0..max_depth, and max_depth in 1..{POSITIONS}")
        if self.seconds < 1 or not self.slices or any(one.pods < 1 for one in self.slices):
            raise ValueError("a scenario needs time, and at least one pod in each slice")

    @property
    def pods(self) -> int:
        return sum(one.pods for one in self.slices)
