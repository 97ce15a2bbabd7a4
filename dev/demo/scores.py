"""What the replays of a record say: how fast each arm was, and how the settled schedule compares. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, stdev
from typing import Any, Literal

Record = Mapping[str, Any]
Replays = Sequence[Mapping[str, Any]]
Part = Literal[
    "picking", "judging"
]  # of the best pinned depth, among all arms; of what was settled on, against it


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of speeds. ``error``: its standard error by the spread over the rounds; None: one round."""

    value: float
    error: float | None


def turns_of(replays: Replays, text: str, users: int, arm: str, part: Part) -> Replays:
    """Give the turns of one arm in one part of the replays of some prompts."""
    wanted = (text, users, arm, part)
    return [one for one in replays if (one["text"], one["users"], one["arm"], one["part"]) == wanted]


def token_seconds_of(record: Record, phase_name: str, arm: str) -> float | None:
    """Time per output token of an arm, by the pods' own counters; rounds have the same tokens."""
    found = [one["counters"]["token_seconds"] for one in _picking(record, phase_name, arm)]
    values = [value for value in found if value is not None]
    return sum(values) / len(values) if values else None


def score(record: Record, phase_name: str, arm: str) -> float | None:
    """Tokens per second of a user; with several users completed requests per second while all are busy.

    By the rounds in which all arms had their turns. Many users' requests are counted by their tokens, since
    few begin and end within one turn.
    """
    turns = _picking(record, phase_name, arm)
    if not turns:
        return None
    if turns[0]["users"] == 1:
        return float(sum(one["tokens"] for one in turns) / sum(one["requestSeconds"] for one in turns))
    requests = sum(one["counters"]["tokens"] / one["tokensPerRequest"] for one in turns)
    return float(requests / sum(one["counters"]["seconds"] for one in turns))


def settled_of_best(record: Record, phase_name: str) -> Ratio | None:
    """What the tuner had settled on, against the best pinned depth: a ratio of speeds.

    Some rounds pick the best depth and others compare with it: the best of several noisy figures is too good,
    so the same figure must not pick and judge.
    """
    phase = _phase(record, phase_name)
    pinned = [f"depth-{depth}" for depth in record["plan"]["depths"]]
    arm = record["settledArms"].get(phase_name)
    best = best_pinned(record["replays"], phase["text"], phase["users"], pinned)
    if arm is None or best is None:
        return None
    if arm == best:
        return Ratio(1.0, 0.0)
    return _relative_speed(record["replays"], phase["text"], phase["users"], (arm, best), "judging")


def best_pinned(replays: Replays, text: str, users: int, pinned: Sequence[str]) -> str | None:
    """Give the fastest of these arms, by the rounds that pick; all of them are compared with the first."""
    gains = {
        name: gain.value
        for name in pinned
        if (gain := _relative_speed(replays, text, users, (name, pinned[0]), "picking")) is not None
    }
    return max(gains, key=lambda name: gains[name]) if gains else None


def _relative_speed(
    replays: Replays, text: str, users: int, arms: tuple[str, str], part: Part
) -> Ratio | None:
    """How much faster the first arm is than the second: the median of paired ratios.

    A pair is one prompt in one round (one user) or one round (many users): a machine that slows down for
    minutes hits both of a pair, and a burst that hits one of them is one pair of many.
    """
    first, second = (
        {one["round"]: _times(one) for one in turns_of(replays, text, users, arm, part)} for arm in arms
    )
    rounds = [
        [second[number][name] / first[number][name] for name in first[number].keys() & second[number].keys()]
        for number in first.keys() & second.keys()
    ]
    rounds = [ratios for ratios in rounds if ratios]
    if not rounds:
        return None
    error = stdev(map(median, rounds)) / math.sqrt(len(rounds)) if len(rounds) > 1 else None
    return Ratio(median(ratio for ratios in rounds for ratio in ratios), error)


def _phase(record: Record, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(phase for phase in record["phases"] if phase["name"] == name)
    return found


def _picking(record: Record, phase_name: str, arm: str) -> Replays:
    phase = _phase(record, phase_name)
    return turns_of(record["replays"], phase["text"], phase["users"], arm, "picking")


def _times(one: Mapping[str, Any]) -> Mapping[str, float]:
    """Seconds per token of each prompt, or per request where many users share the pods."""
    if one["users"] == 1:
        return dict(one["secondsPerToken"])
    tokens, seconds = one["counters"]["tokens"], one["counters"]["seconds"]
    return {"all": one["tokensPerRequest"] * seconds / tokens} if tokens else {}
