"""The run as one picture: depth, load, accepted length and time per token over time, the replays below."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # no display is needed

from dev.demo.counters import difference, rolling
from dev.demo.figures import running_samples
from dev.demo.report import comparison
from dev.demo.scores import token_seconds_of
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

STEP_SECONDS = 6.0  # of the curves: a probe must stay visible
SHADES = ("#e8f1fa", "#fdf1e3", "#eaf5ea", "#e8f1fa")
PUSH, PROBE, CUT = "#c0392b", "#b9a6d6", "#7f8c8d"


def draw(record: Mapping[str, Any], path: Path) -> None:
    """Write the PNG."""
    samples = [one for one in running_samples(record) if "problem" not in one]
    start = samples[0]["time"]
    figure, axes = plt.subplots(
        5, 1, figsize=(14, 16), height_ratios=(3, 2.2, 2.2, 2.2, 3.2), constrained_layout=True
    )
    figure.suptitle(
        f"specfleet demo, engine {record['plan']['engine']}: the depth follows what Prometheus measured",
        fontsize=15,
    )
    over_time = axes[:4]
    _curves(over_time, samples, start)
    _off_lines(over_time[3], record, start)
    for axis in over_time:
        _shade(axis, record, samples, start)
        axis.set_xlim(0, (samples[-1]["time"] - start) / 60)
        axis.grid(axis="y", alpha=0.3)
    _name_phases(over_time[0], record, start)
    over_time[3].set_xlabel("minutes")
    _bars(axes[4], record)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _curves(axes: Sequence[Axes], samples: Sequence[Mapping[str, Any]], start: float) -> None:
    depth, load, accepted, token = axes
    windows = [
        (later["time"], difference(earlier, later)) for earlier, later in rolling(samples, STEP_SECONDS)
    ]
    busy = [(time, window) for time, window in windows if window.steps > 0]
    at = [(time - start) / 60 for time, _ in busy]
    depth.plot(
        at,
        [_or_gap(window.mean_depth) for _, window in busy],
        color="#1f4e79",
        label="mean depth of the steps run",
    )
    depth.set_ylabel("depth")
    depth.set_ylim(-0.3, 6.2)
    accepted.plot(at, [_or_gap(window.accepted_length) for _, window in busy], color="#2e7d32")
    accepted.set_ylabel("tokens per step\n(accepted + 1)")
    accepted.set_ylim(bottom=0.8)
    milliseconds = [1000 * _or_gap(window.token_seconds) for _, window in busy]
    token.plot(at, milliseconds, color="#6a1b9a", label="measured")
    token.set_ylabel("time per output\ntoken, ms")
    token.set_ylim(bottom=0)
    times = [(one["time"] - start) / 60 for one in samples]
    for key, colour, label in (
        ("running", "#00695c", "running"),
        ("waiting", "#ef6c00", "waiting in the queue"),
    ):
        values = [sum(pod[key] for pod in one["pods"].values()) for one in samples]
        load.step(times, values, where="post", color=colour, label=label)
    load.set_ylabel("requests")
    load.set_ylim(bottom=0)
    load.legend(loc="upper left", fontsize=9)


def _or_gap(value: float | None) -> float:
    """Leave a gap in the curve where there is nothing to show."""
    return math.nan if value is None else value


def _off_lines(axis: Axes, record: Mapping[str, Any], start: float) -> None:
    """Draw, for each phase, what its prompts take with speculation off."""
    for number, phase in enumerate(record["phases"]):
        off = token_seconds_of(record, phase["name"], "depth-0")
        if off is not None:
            ends = ((phase["start"] - start) / 60, (phase["end"] - start) / 60)
            label = "speculation off, same prompts replayed" if number == 0 else "_"
            axis.hlines(1000 * off, *ends, colors="#444444", linestyles="dashed", label=label)
    axis.legend(loc="upper left", fontsize=9)


def _shade(axis: Axes, record: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], start: float) -> None:
    for phase, shade in zip(record["phases"], SHADES, strict=False):
        axis.axvspan((phase["start"] - start) / 60, (phase["end"] - start) / 60, color=shade, zorder=0)
    cut = record["outage"]
    axis.axvspan((cut["gone"] - start) / 60, (cut["ended"] - start) / 60, color=CUT, alpha=0.35, zorder=1)
    for began, ended in probes(samples):
        axis.axvspan((began - start) / 60, (ended - start) / 60, color=PROBE, alpha=0.35, zorder=1)
    for time in pushed(samples):
        axis.axvline((time - start) / 60, color=PUSH, linewidth=1.4, zorder=2)


def _name_phases(axis: Axes, record: Mapping[str, Any], start: float) -> None:
    for phase in record["phases"]:
        middle = ((phase["start"] + phase["end"]) / 2 - start) / 60
        axis.text(middle, 5.75, phase["title"], ha="center", va="center", fontsize=10)
    axis.axvline(-1, color=PUSH, linewidth=1.4, label="push")
    axis.axvspan(-2, -1, color=PROBE, alpha=0.35, label="probe: a short trial of another depth")
    axis.axvspan(-2, -1, color=CUT, alpha=0.35, label="Prometheus cut off")
    axis.legend(loc="lower center", ncols=4, fontsize=9, bbox_to_anchor=(0.5, 1.0), frameon=False)


def probes(samples: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Give the times at which status spoke of a running probe, as stretches."""
    found: list[tuple[float, float]] = []
    before: str | None = None
    for one in samples:
        now = one.get("pool", {}).get("probe")
        if now and now == before:
            found[-1] = (found[-1][0], one["time"])
        elif now:
            found.append((one["time"], one["time"]))
        before = now
    return found


def pushed(samples: Sequence[Mapping[str, Any]]) -> list[float]:
    """Give the times at which the operator's count of pushes rose."""
    counts = [
        (one["time"], one["schedulePushes"].get("push", 0.0)) for one in samples if "schedulePushes" in one
    ]
    return [time for (_, before), (time, now) in pairwise(counts) if now > before]


def _bars(axis: Axes, record: Mapping[str, Any]) -> None:
    """Draw the replays: each arm's speed over that of speculation off."""
    lines = comparison(record)
    depths = record["plan"]["depths"]
    width = 0.8 / (len(depths) + 1)
    colours = ["#9e9e9e", *plt.get_cmap("Blues")([0.3 + 0.12 * n for n in range(len(depths) - 1)]), PUSH]
    for arm in range(len(depths) + 1):
        label = f"pinned {depths[arm]}" if arm < len(depths) else "what the tuner had settled on"
        for group, line in enumerate(lines):
            scores = list(line["scores"].values())
            if scores[arm] is None or not scores[0]:
                continue
            height = scores[arm] / scores[0]
            at = group + (arm - len(depths) / 2) * width
            axis.bar(at, height, width * 0.92, color=colours[arm], label=label if group == 0 else None)
            axis.text(at, height, f"{height:.2f}", ha="center", va="bottom", fontsize=8)
    axis.set_xticks(range(len(lines)), [f"{line['phase']}\n({line['unit']})" for line in lines])
    axis.axhline(1.0, color="#444444", linestyle="dashed", linewidth=1)
    axis.set_ylabel("speed over speculation off\n(replays, same prompts)")
    axis.margins(y=0.18)
    axis.legend(loc="upper center", ncols=len(depths) + 1, fontsize=9)
