"""The end of a run as a file and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from dev.figures import written

mpl.use("Agg")

from matplotlib import pyplot as plt

__all__ = ["draw", "write_report"]

Figures = Sequence[Mapping[str, Any]]


def write_report(path: Path, record: Mapping[str, Any], found: Figures) -> None:
    """Write the figures and everything that they were computed from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written({"figures": list(found), **record}), encoding="utf-8")


def draw(path: Path, record: Mapping[str, Any]) -> None:
    """Draw tokens a second of every round, by arm, with the median as a line."""
    sections = [f"throughput-{users}" for users in (1, 4, 16)]
    figure, panels = plt.subplots(1, len(sections), figsize=(10, 4), layout="constrained")
    for panel, section in zip(panels, sections, strict=True):
        rounds = [one for one in record["rounds"] if one["section"] == section]
        for place, arm in enumerate(["ours", *record["peers"]]):
            rates = sorted(one[arm]["rate"] for one in rounds)
            panel.plot([place] * len(rates), rates, "o", alpha=0.5, color=f"C{place}")
            if rates:
                panel.hlines(rates[len(rates) // 2], place - 0.3, place + 0.3, color=f"C{place}")
        names = ["specfleet", *record["peers"]]
        panel.set_xticks(range(len(names)), names)
        panel.set_xlim(-0.6, len(names) - 0.4)
        panel.set_ylim(bottom=0)
        panel.set_title(f"{section.removeprefix('throughput-')} at once")
    panels[0].set_ylabel("output tokens a second, over HTTP")
    figure.suptitle(f"SmolLM2-135M, {record['dtype']}, {record['cores']} cores, kernel {record['kernel']}")
    figure.savefig(path, dpi=120)
    plt.close(figure)
