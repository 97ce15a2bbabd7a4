"""The verdict: figures from the raw record of a run, and nothing else. Pure.

A record is what `report.json` holds beside the figures, so that anyone can compute them again.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dev.demo.counters import Window, difference, rolling
from dev.demo.scores import Record, settled_of_best, token_seconds_of
from dev.figures import figure

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
    found.extend(_settled_figure(record, phase["name"]) for phase in record["phases"])
    return [
        *found,
        figure("failed requests", float(len(failed(record))), "requests", at_most=0),
        figure("texts that differ from speculation off", differing_texts(record), "requests", at_most=0),
        figure("pushes beside probes while the load ran", pushes(record), "per hour", at_most=PUSHES),
        *_outage_figures(record),
        figure("restarts", float(restarts(record)), "containers", at_most=0),
    ]


def _settled_figure(record: Record, phase_name: str) -> dict[str, Any]:
    ratio = settled_of_best(record, phase_name)
    name = f"settled schedule of best pinned depth, phase {phase_name}"
    found = figure(name, ratio.value if ratio else None, "ratio", at_least=SETTLED_RATIO)
    return found if ratio is None or ratio.error is None else {**found, "standardError": ratio.error}


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
