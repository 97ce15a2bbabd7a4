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


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often each arm of a phase has its turn: until the best pinned depth is picked, and beside it."""

    picking: int
    judging: int
    turn_seconds: float = 0.0  # of many users; a single one sends every prompt once


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. ``tuning`` are the chart's values of that name."""

    engine: str
    example: str
    resource: str
    phases: tuple[Phase, ...]
    tuning: Mapping[str, float]
    window_seconds: float  # figures of the running load are means over windows of this length
    alone_rounds: Rounds  # of the phases with one user
    crowd_rounds: Rounds
    outage_seconds: float
    start_seconds: float  # for the pods to become ready
    sample_seconds: float = 2.0
    pool: str = "main"
    depths: tuple[int, ...] = (0, 1, 2, 3, 5)  # pinned in the replays

    def rounds(self, phase: Phase) -> Rounds:
        """Give those of a phase."""
        return self.alone_rounds if phase.users == 1 else self.crowd_rounds


def _phases(
    seconds: tuple[float, float, float, float], tokens: tuple[int, int, int], *, users: int, join: float
) -> tuple[Phase, ...]:
    alone, free, chat = tokens
    return (
        Phase("repetitive", "one user, repetitive text", "repetitive", 1, seconds[0], alone),
        Phase("free", "one user, free text", "free", 1, seconds[1], free),
        Phase("crowd", "many users, mixed chat", "mixed", users, seconds[2], chat, join),
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
        phases=_phases(_MODEL_SECONDS, tokens=(80, 40, 40), users=20, join=1.0),
        tuning=_MODEL_PACE,
        window_seconds=30.0,
        alone_rounds=Rounds(picking=3, judging=4),
        crowd_rounds=Rounds(picking=4, judging=24, turn_seconds=8.0),
        outage_seconds=60.0,
        start_seconds=600.0,
    ),
    "simulated": Plan(
        engine="simulated",
        example="examples/simulated.yaml",
        resource="first-look",
        phases=_phases((75.0, 60.0, 170.0, 60.0), tokens=(96, 64, 96), users=80, join=0.1),
        tuning={
            "scrapeIntervalSeconds": 2,
            "pushCooldownSeconds": 15,
            "probeSeconds": 6,
            "probeUnknownIntervalSeconds": 10,
            "probeKnownIntervalSeconds": 60,
        },
        window_seconds=15.0,
        alone_rounds=Rounds(picking=1, judging=2),
        crowd_rounds=Rounds(picking=2, judging=8, turn_seconds=6.0),
        outage_seconds=60.0,
        start_seconds=180.0,
    ),
    "vllm": Plan(
        engine="vllm",
        example="examples/vllm-cpu.yaml",
        resource="smollm2-vllm",
        # Its steps take twice as long, so as much is seen in twice the time.
        phases=_phases((180.0, 220.0, 240.0, 180.0), tokens=(80, 32, 40), users=12, join=1.5),
        tuning=_MODEL_PACE,
        window_seconds=30.0,
        alone_rounds=Rounds(picking=3, judging=4),
        crowd_rounds=Rounds(picking=4, judging=20, turn_seconds=12.0),
        outage_seconds=60.0,
        start_seconds=600.0,
    ),
}
