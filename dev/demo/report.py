"""The record of a run as a file, and the comparison that people read first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dev.demo.scores import score, token_seconds_of
from dev.figures import written
from dev.tables import a_table, figures_table, number
from rich.console import Console


def comparison(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give, per phase, every arm's score and the gain of the settled schedule over speculation off."""
    lines = []
    for phase in record["phases"]:
        settled = record["settledArms"].get(phase["name"], "none")
        arms = {f"depth-{depth}": f"depth-{depth}" for depth in record["plan"]["depths"]} | {
            "settled": settled
        }
        scores = {name: score(record, phase["name"], arm) for name, arm in arms.items()}
        off, tuned = scores["depth-0"], scores["settled"]
        lines.append(
            {
                "phase": phase["name"],
                "unit": "tok/s" if phase["users"] == 1 else "req/s",
                "settled": record["settled"].get(phase["name"]),
                "scores": scores,
                "tokenSeconds": {
                    name: token_seconds_of(record, phase["name"], arm) for name, arm in arms.items()
                },
                "gainPercent": 100.0 * (tuned / off - 1.0) if tuned and off else None,
            }
        )
    return lines


def write_report(path: Path, record: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    """Write the figures, the comparison, and everything that they were computed from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"figures": list(found), "comparison": comparison(record), **record}
    path.write_text(written(body), encoding="utf-8")


def print_verdict(console: Console, record: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    """Print the comparison with speculation off, then the figures."""
    lines = comparison(record)
    title = "Each phase's prompts replayed, with pinned depths and as settled"
    columns = ("phase", "unit", *map(str, record["plan"]["depths"]), "settled", "gain")
    console.print(a_table(title, columns, map(_cells, lines), left=2))
    console.print(figures_table(found))


def _cells(line: Mapping[str, Any]) -> list[str]:
    gain = line["gainPercent"]
    scores = [number(value) for value in line["scores"].values()]
    return [line["phase"], line["unit"], *scores, "-" if gain is None else f"{gain:+.0f} %"]
