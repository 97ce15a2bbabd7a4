"""Three pictures: regret by scenario, time to disable, and a day in one pool."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # no display is needed

import numpy as np
from dev.evaluation.means import Result, of_policy
from dev.evaluation.plan import OURS
from dev.evaluation.scenarios import TABLE_SCENARIOS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from specfleet.simulator.policies import POLICIES
from specfleet.simulator.run import Run, simulate
from specfleet.simulator.state import BATCH, IN_DEPTH, WAITING
from specfleet.tuning.decision import Push

BLUE, ORANGE, RED, GREY = "#1f4e79", "#ef6c00", "#c0392b", "#9e9e9e"
_SMOOTH = 60  # seconds


def draw_regret(results: Sequence[Result], path: Path) -> None:
    """Draw each policy's regret by scenario, ours in front."""
    names = [one.name for one in TABLE_SCENARIOS if any(r["scenario"] == one.name for r in results)]
    figure, axis = plt.subplots(figsize=(12, 6), constrained_layout=True)
    colours = plt.get_cmap("tab20")  # one for each policy
    for number, policy in enumerate(dict.fromkeys(one["policy"] for one in results)):
        found = {name: list(values.values()) for name, values in of_policy(results, policy, "regret").items()}
        values = [100 * float(np.mean(found[name])) if name in found else np.nan for name in names]
        if policy == OURS:
            spread = [100 * float(np.std(found.get(name, [np.nan]))) for name in names]
            axis.errorbar(
                range(len(names)), values, spread, color=RED, marker="o", capsize=3, label=policy, zorder=3
            )
        else:
            axis.plot(
                range(len(names)), values, color=colours(number), marker=".", linewidth=0.8, label=policy
            )
    axis.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axis.set_ylabel("regret against the steady-state oracle, %\n(bars: spread of the seeds)")
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", alpha=0.3)
    axis.legend(ncols=2, fontsize=8)
    _save(figure, path)


def draw_disable(results: Sequence[Result], path: Path) -> None:
    """Draw how long a wrong table stayed after the load had stepped up, seed by seed."""
    seconds = sorted(float(one["disable"]) for one in results if one.get("disable") is not None)
    figure, axis = plt.subplots(figsize=(8, 4.5), constrained_layout=True)
    if seconds:
        shares = [100 * (number + 1) / len(seconds) for number in range(len(seconds))]
        axis.step([0.0, *seconds], [0.0, *shares], where="post", color=RED)
    for limit, share in ((60, 50), (120, 95)):
        axis.plot([limit], [share], marker="x", color=BLUE)
        axis.annotate(
            f"target: {share} % within {limit} s", (limit, share), xytext=(6, -12), textcoords="offset points"
        )
    axis.set_xlabel("seconds from the step of load until the peak bin has its final depth")
    axis.set_ylabel("% of the seeds")
    axis.set_ylim(0, 105)
    axis.grid(alpha=0.3)
    _save(figure, path)


def draw_day(seed: int, hours: float, path: Path) -> None:
    """Run a pool under our policy and draw depth, load and queue."""
    base = next(one for one in TABLE_SCENARIOS if one.name == "base-diurnal")
    seconds = int(3600 * hours)
    scenario = replace(base, seconds=seconds, traffic=replace(base.traffic, period=float(seconds)))
    run = simulate(scenario, POLICIES[OURS](scenario), seed)
    figure, axes = plt.subplots(3, 1, figsize=(14, 8), sharex=True, constrained_layout=True)
    figure.suptitle(
        f"{hours:g} h in one pool: peak load is the capacity without speculation, drafts collapse at 55 %"
    )
    _curves(axes, run)
    axes[2].set_xlabel("hours")
    _save(figure, path)


def _curves(axes: Sequence[Axes], run: Run) -> None:
    # One pod; its time with a proposer and without are two traces.
    rows = np.nan_to_num(np.array([trace.rows for trace in run.traces], dtype=float)).sum(axis=0)
    at = np.arange(len(rows)) / 3600.0
    axes[0].plot(at, _smooth(rows[:, IN_DEPTH]), color=BLUE, linewidth=0.8)
    axes[0].set_ylabel("depth, mean of a minute")
    for one in run.passes:
        if isinstance(one.outcome.decision, Push):
            axes[0].axvline(one.at / 3600.0, color=RED, linewidth=0.6, alpha=0.6)
    axes[0].set_title("red: pushes", fontsize=9, loc="right")
    axes[1].plot(at, _smooth(rows[:, BATCH]), color=GREY, linewidth=0.8)
    axes[1].set_ylabel("decoding requests")
    axes[2].plot(at, _smooth(rows[:, WAITING]), color=ORANGE, linewidth=0.8)
    axes[2].set_ylabel("waiting requests")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(axis="y", alpha=0.3)


def _smooth(values: np.ndarray) -> np.ndarray:
    return np.convolve(np.nan_to_num(values), np.ones(_SMOOTH) / _SMOOTH, mode="same")


def _save(figure: plt.Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
