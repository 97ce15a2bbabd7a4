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
class Plan:
    """One run. ``tuning`` are the chart's values of that name."""

    engine: str
    example: str
    resource: str
    phases: tuple[Phase, ...]
    tuning: Mapping[str, float]
    window_seconds: float  # figures of the running load are means over windows of this length
    rounds: int  # of every replay; the arms take turns
    outage_seconds: float
    start_seconds: float  # for the pods to become ready
    sample_seconds: float = 2.0
    pool: str = "main"
    depths: tuple[int, ...] = (0, 1, 2, 3, 5)  # pinned in the replays


def _phases(
    seconds: tuple[float, float, float, float], users: int, tokens: tuple[int, int, int], join_seconds: float
) -> tuple[Phase, ...]:
    alone, free, crowd = tokens
    return (
        Phase("repetitive", "one user, repetitive text", "repetitive", 1, seconds[0], alone),
        Phase("free", "one user, free text", "free", 1, seconds[1], free),
        Phase("crowd", "many users, mixed chat", "mixed", users, seconds[2], crowd, join_seconds),
        Phase("repetitive-again", "one user, repetitive text again", "repetitive", 1, seconds[3], alone),
    )


PLANS: Mapping[str, Plan] = {
    "builtin": Plan(
        engine="builtin",
        example="examples/smollm2.yaml",
        resource="smollm2",
        phases=_phases((360.0, 300.0, 360.0, 300.0), users=20, tokens=(96, 64, 40), join_seconds=1.0),
        tuning={
            "scrapeIntervalSeconds": 5,
            "pushCooldownSeconds": 60,
            "probeSeconds": 15,
            "probeUnknownIntervalSeconds": 30,
            "probeKnownIntervalSeconds": 150,
        },
        window_seconds=45.0,
        rounds=2,
        outage_seconds=60.0,
        start_seconds=600.0,
    ),
    "simulated": Plan(
        engine="simulated",
        example="examples/simulated.yaml",
        resource="first-look",
        phases=_phases((90.0, 75.0, 200.0, 75.0), users=80, tokens=(160, 160, 96), join_seconds=0.1),
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
}
