"""What the replays of a record say: how fast each arm was, and how the settled schedule compares. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Record = Mapping[str, Any]


def rounds_of(record: Record, phase_name: str, arm: str) -> list[Mapping[str, Any]]:
    """The replays of one arm on a phase's prompts."""
    phase = next(phase for phase in record["phases"] if phase["name"] == phase_name)
    return [
        one
        for one in record["replays"]
        if (one["text"], one["users"], one["arm"]) == (phase["text"], phase["users"], arm)
    ]


def token_seconds_of(record: Record, phase_name: str, arm: str) -> float | None:
    """Time per output token of an arm, by the pods' own counters; rounds have the same tokens."""
    found = [one["counters"]["token_seconds"] for one in rounds_of(record, phase_name, arm)]
    values = [value for value in found if value is not None]
    return sum(values) / len(values) if values else None


def score(record: Record, phase_name: str, arm: str) -> float | None:
    """Tokens per second of a user; with several users completed requests per second while all are busy."""
    rounds = rounds_of(record, phase_name, arm)
    if not rounds:
        return None
    if rounds[0]["users"] == 1:
        return float(sum(one["tokens"] for one in rounds) / sum(one["requestSeconds"] for one in rounds))
    return float(sum(one["busyRequests"] for one in rounds) / sum(one["busySeconds"] for one in rounds))


def settled_of_best(record: Record, phase_name: str) -> float | None:
    """What the tuner had settled on, against the best pinned depth: a ratio of speeds.

    One half of the rounds picks the best depth and the other half compares with it, both ways round: the
    best of several noisy figures is too good, so the same figure must not pick and judge.
    """
    arm = record["settledArms"].get(phase_name)
    pinned = [f"depth-{depth}" for depth in record["plan"]["depths"]]
    numbers = sorted({one["round"] for name in pinned for one in rounds_of(record, phase_name, name)})
    halves = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    ratios = []
    for picking, judging in (halves, halves[::-1]):
        gains = {
            name: gain
            for name in pinned
            if (gain := relative_speed(record, phase_name, (name, pinned[0]), picking)) is not None
        }
        if arm is None or not gains:
            return None
        best = max(gains, key=lambda name: gains[name])
        ratios.append(relative_speed(record, phase_name, (arm, best), judging))
    known = [ratio for ratio in ratios if ratio is not None]
    return sum(known) / len(known) if len(known) == len(ratios) else None


def relative_speed(
    record: Record, phase_name: str, arms: tuple[str, str], numbers: Sequence[int]
) -> float | None:
    """How much faster the first arm is than the second, in these rounds: the median of paired ratios.

    A pair is one prompt in one round (one user) or one round (many users): a machine that slows down for
    minutes hits both of a pair, and a burst that hits one of them is one pair of many.
    """
    first, second = (
        {
            (one["round"], prompt): seconds
            for one in rounds_of(record, phase_name, arm)
            if one["round"] in numbers
            for prompt, seconds in _times(one).items()
        }
        for arm in arms
    )
    ratios = [second[pair] / first[pair] for pair in first.keys() & second.keys()]
    return median(ratios) if ratios else None


def _times(one: Mapping[str, Any]) -> Mapping[str, float]:
    """Seconds per token of each prompt, or per request where many users share the pods."""
    if one["users"] == 1:
        return dict(one["secondsPerToken"])
    return {"all": one["busySeconds"] / one["busyRequests"]}
