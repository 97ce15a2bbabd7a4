"""The verdict: figures from the raw record of a run, and nothing else. Pure.

A record is what `report.json` holds beside the figures, so that anyone can compute them again.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from dev.demo.counters import Window, difference, rolling
from dev.figures import figure

Record = Mapping[str, Any]

DEEP = 3.0
TOKEN_TIME_RATIO = 0.7
BACK_SECONDS = 300.0
SETTLED_RATIO = 0.95
PUSHES = 6
FIRST, LAST = "repetitive", "repetitive-again"


def figures(record: Record) -> list[dict[str, Any]]:
    """Compute every figure that the demo has to reach."""
    first = best_window(record, FIRST)
    back = seconds_until_back(record)
    found = [
        figure("mean depth, repetitive text", first.mean_depth if first else None, "tokens", at_least=DEEP),
        figure(
            "time per output token, repetitive text, of speculation off",
            _of_off(record, FIRST, first) if first else None,
            "ratio",
            at_most=TOKEN_TIME_RATIO,
        ),
        figure("back at both in the last phase", back, "s", at_most=BACK_SECONDS),
    ]
    found.extend(
        figure(
            f"settled schedule of best pinned depth, phase {phase['name']}",
            settled_of_best(record, phase["name"]),
            "ratio",
            at_least=SETTLED_RATIO,
        )
        for phase in record["phases"]
    )
    return [
        *found,
        figure("failed requests", float(len(failed(record))), "requests", at_most=0),
        figure("texts that differ from speculation off", differing_texts(record), "requests", at_most=0),
        figure("pushes beside probes while the load ran", pushes(record), "per hour", at_most=PUSHES),
        *_outage_figures(record),
        figure("restarts", float(restarts(record)), "containers", at_most=0),
    ]


def samples_of(record: Record, stage: str) -> list[Mapping[str, Any]]:
    """The complete samples of one stage."""
    return [one for one in record["samples"] if one["stage"] == stage and "problem" not in one]


def windows(record: Record, stage: str) -> list[tuple[float, Window]]:
    """Every window of the plan's length inside a stage, with the time of its end."""
    pairs = rolling(samples_of(record, stage), record["plan"]["window_seconds"])
    found = ((later["time"], difference(earlier, later)) for earlier, later in pairs)
    return [(time, window) for time, window in found if window.token_seconds is not None and window.steps > 0]


def best_window(record: Record, stage: str) -> Window | None:
    """The window with the shortest time per output token: depth and time are of one and the same moment."""
    found = [window for _, window in windows(record, stage)]
    return min(found, key=lambda window: window.token_seconds or 0.0) if found else None


def seconds_until_back(record: Record) -> float | None:
    """From the start of the last phase to the end of its first window that is deep and fast; None: never."""
    start = next(phase["start"] for phase in record["phases"] if phase["name"] == LAST)
    for time, window in windows(record, LAST):
        ratio = _of_off(record, LAST, window)
        if ratio is not None and (window.mean_depth or 0.0) >= DEEP and ratio <= TOKEN_TIME_RATIO:
            return float(time - start)
    return None


def _of_off(record: Record, stage: str, window: Window) -> float | None:
    off = token_seconds_of(record, stage, "depth-0")
    if off is None or window.token_seconds is None:
        return None
    return window.token_seconds / off


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
    """Tokens per second of a user; with several users completed requests per second."""
    rounds = rounds_of(record, phase_name, arm)
    if not rounds:
        return None
    if rounds[0]["users"] == 1:
        return float(sum(one["tokens"] for one in rounds) / sum(one["requestSeconds"] for one in rounds))
    return float(sum(one["requests"] for one in rounds) / sum(one["seconds"] for one in rounds))


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
    return {"all": one["seconds"] / one["requests"]}


def failed(record: Record) -> list[Mapping[str, Any]]:
    """Requests that gave their user an error, replays included."""
    return [request for request in record["requests"] if request["error"] is not None]


def differing_texts(record: Record) -> float | None:
    """Requests whose greedy text is not what depth 0 gave for the same prompt; None: nothing to compare."""
    done = [request for request in record["requests"] if request["error"] is None]
    plain: dict[str, str] = {}
    for request in done:
        if request["stage"].endswith("/depth-0"):
            plain.setdefault(request["prompt"], request["text"])
    if not {request["prompt"] for request in done} <= plain.keys():
        return None
    return float(sum(request["text"] != plain[request["prompt"]] for request in done))


def pushes(record: Record) -> float | None:
    """Pushes that the operator counted while the load ran, at most those of one hour."""
    counted = [
        (one["time"], one["schedulePushes"].get("push", 0.0))
        for one in running_samples(record)
        if "schedulePushes" in one
    ]
    if len(counted) < 2:
        return None
    worst = 0.0
    for time, count in counted:
        worst = max(worst, *(later - count for then, later in counted if time <= then <= time + 3600.0))
    return worst


def running_samples(record: Record) -> list[Mapping[str, Any]]:
    """The samples before the replays."""
    return [
        one for one in record["samples"] if not one["stage"].startswith("replay/") and one["stage"] != "start"
    ]


def restarts(record: Record) -> int:
    """Containers that restarted, and pods that came or went, since the load began."""
    seen = [one["restarts"] for one in running_samples(record) if "problem" not in one]
    if not seen:
        return 0
    first = seen[0]
    uids: set[str] = set().union(*seen)
    more = sum(max(one.get(uid, 0) for one in seen) - first.get(uid, 0) for uid in uids)
    return int(more) + len(uids - first.keys())


def _outage_figures(record: Record) -> list[dict[str, Any]]:
    cut = record["outage"]
    in_force = [
        one for one in record["samples"] if cut["began"] <= one["time"] <= cut["ended"] and one["pods"]
    ]
    without = [one for one in in_force if one["time"] >= cut["gone"]]
    said = [
        one["conditions"]["MetricsAvailable"]
        for one in without
        if "MetricsAvailable" in one.get("conditions", {})
    ]
    reasons = [condition for condition in said if condition["status"] != "True" and condition["message"]]
    served = [
        request
        for request in record["requests"]
        if request["error"] is None and request["ended"] and cut["gone"] <= request["ended"] <= cut["ended"]
    ]
    return [
        figure("schedule changes while Prometheus was cut off", _changes(in_force), "changes", at_most=0),
        figure("status says that and why metrics are missing", float(bool(reasons)), "yes or no", at_least=1),
        figure("requests served while Prometheus was cut off", float(len(served)), "requests", at_least=1),
    ]


def _changes(samples: Sequence[Mapping[str, Any]]) -> float | None:
    states = [
        (
            sorted((name, pod.get("scheduleVersion")) for name, pod in one["pods"].items()),
            one.get("pool", {}).get("schedule", {}).get("table"),
        )
        for one in samples
        if "problem" not in one
    ]
    if len(states) < 2:
        return None
    return float(sum(later != earlier for earlier, later in pairwise(states)))
