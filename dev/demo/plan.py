"""How long each part of a run takes and how much load it brings, for each engine.

The pace is the tuner's own, from the chart's values: shorter than its defaults, so that a run fits into a
coffee break. The rules by which it decides are the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Text = Literal["repetitive", "free", "mixed"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of closed-loop load: every user sends its next request when the last one has ended."""

    name: str
    title: str
    text: Text
    users: int
    seconds: float
    max_tokens: int
    join_seconds: float = 0.0  # between two users that join
    repeats: int = 1  # how often a replay sends the prompts: many users are compared while all are busy


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many users come together, and how the phase and its replays keep them busy; see `Phase`."""

    users: int
    join_seconds: float
    repeats: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. ``tuning`` are the chart's values of that name."""

    engine: str
    example: str
    resource: str
    phases: tuple[Phase, ...]
    tuning: Mapping[str, float]
    window_seconds: float  # figures of the running load are means over windows of this length
    rounds: int  # of every replay, at least 2; the arms take turns
    outage_seconds: float
    start_seconds: float  # for the pods to become ready
    sample_seconds: float = 2.0
    pool: str = "main"
    depths: tuple[int, ...] = (0, 1, 2, 3, 5)  # pinned in the replays


def _phases(
    seconds: tuple[float, float, float, float], tokens: tuple[int, int, int], crowd: Crowd
) -> tuple[Phase, ...]:
    alone, free, chat = tokens
    return (
        Phase("repetitive", "one user, repetitive text", "repetitive", 1, seconds[0], alone),
        Phase("free", "one user, free text", "free", 1, seconds[1], free),
        Phase(
            "crowd",
            "many users, mixed chat",
            "mixed",
            crowd.users,
            seconds[2],
            chat,
            crowd.join_seconds,
            crowd.repeats,
        ),
        Phase("repetitive-again", "one user, repetitive text again", "repetitive", 1, seconds[3], alone),
    )


# Engines with a model take tens of milliseconds for a token, so they need time.
_MODEL_SECONDS = (150.0, 100.0, 210.0, 130.0)
_MODEL_PACE = {
    "scrapeIntervalSeconds": 3,
    "pushCooldownSeconds": 30,
    "probeSeconds": 10,
    "probeUnknownIntervalSeconds": 15,
    "probeKnownIntervalSeconds": 90,
}

PLANS: Mapping[str, Plan] = {
    "builtin": Plan(
        engine="builtin",
        example="examples/smollm2.yaml",
        resource="smollm2",
        phases=_phases(_MODEL_SECONDS, tokens=(80, 40, 40), crowd=Crowd(20, join_seconds=1.0, repeats=6)),
        tuning=_MODEL_PACE,
        window_seconds=30.0,
        rounds=4,
        outage_seconds=60.0,
        start_seconds=600.0,
    ),
    "simulated": Plan(
        engine="simulated",
        example="examples/simulated.yaml",
        resource="first-look",
        phases=_phases(
            (75.0, 60.0, 170.0, 60.0), tokens=(96, 64, 96), crowd=Crowd(80, join_seconds=0.1, repeats=20)
        ),
        tuning={
            "scrapeIntervalSeconds": 2,
            "pushCooldownSeconds": 15,
            "probeSeconds": 6,
            "probeUnknownIntervalSeconds": 10,
            "probeKnownIntervalSeconds": 60,
        },
        window_seconds=15.0,
        rounds=2,
        outage_seconds=60.0,
        start_seconds=180.0,
    ),
    "vllm": Plan(
        engine="vllm",
        example="examples/vllm-cpu.yaml",
        resource="smollm2-vllm",
        # Its steps take twice as long, so as much is seen in twice the time.
        phases=_phases(
            (180.0, 220.0, 240.0, 180.0), tokens=(80, 32, 40), crowd=Crowd(12, join_seconds=1.5, repeats=4)
        ),
        tuning=_MODEL_PACE,
        window_seconds=30.0,
        rounds=4,
        outage_seconds=60.0,
        start_seconds=600.0,
    ),
}
