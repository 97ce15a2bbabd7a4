"""The picture of a run: load, depth and queue over time."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from specfleet.simulator.run import Run
from specfleet.simulator.state import BATCH, IN_DEPTH, WAITING
from specfleet.tuning.decision import Push

SMOOTH_SECONDS = 60


def draw_run(run: Run, path: Path) -> None:
    """Draw all pods together, a minute a point. The ending of ``path`` names the format."""
    traces = np.array([trace.rows for trace in run.traces], dtype=float)
    up = np.maximum(1, (~np.isnan(traces)).sum(axis=0))
    rows = np.nan_to_num(traces).sum(axis=0) / up
    minutes = max(1, len(rows) // SMOOTH_SECONDS)
    means = [part.mean(axis=0) for part in np.array_split(rows, minutes)]
    hours = np.arange(minutes) * SMOOTH_SECONDS / 3600
    pushes = [one.at / 3600 for one in run.passes if isinstance(one.outcome.decision, Push)]
    figure = Figure(figsize=(10, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(3, sharex=True)
    for axis, column, title in zip(
        axes, (BATCH, IN_DEPTH, WAITING), ("requests per pod", "depth", "waiting per pod"), strict=True
    ):
        axis.plot(hours, [mean[column] for mean in means], linewidth=1.0)
        axis.set_ylabel(title)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        for at in pushes:
            axis.axvline(at, color="grey", linewidth=0.5, alpha=0.6)
    axes[0].set_title(f"{run.scenario.name} under {run.policy} (grey: pushes)")
    axes[-1].set_xlabel("hours")
    figure.savefig(path)
