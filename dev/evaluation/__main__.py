"""`python -m dev.evaluation`: run what is missing, print the table. Exits with 1 when a must is missed."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# Small matrices by the thousand: threads of BLAS would only get in each other's way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dev.evaluation import scale
from dev.evaluation.cells import Result, run_all
from dev.evaluation.figures import figures, of_published_sets
from dev.evaluation.pictures import draw_day, draw_disable, draw_regret
from dev.evaluation.plan import REPOSITORY, digest, plan
from dev.evaluation.report import show, write
from dev.evaluation.scenarios import SCENARIOS
from dev.evaluation.seeds import HELD_OUT, read_seeds
from dev.figures import missed, written
from dev.tables import report_console

from specfleet.simulator.policies import POLICIES


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, run, judge."""
    given = _parser().parse_args(arguments)
    console = report_console()
    began, made_by = time.monotonic(), {"code": digest(), "commit": _commit()}
    try:
        seeds = read_seeds(given.seeds)[: given.first]
        cells = plan(given.scenarios or list(SCENARIOS), given.policies or list(POLICIES), seeds, given.hours)
    except (OSError, ValueError) as error:
        console.print(f"evaluate: {error}", style="red", markup=False)
        return 2
    console.print(f"{len(cells)} cells with the seeds of {given.seeds.name}; {given.jobs} at once")

    def progress(left: int, result: Result) -> None:
        if left % 10 == 0:
            minutes = (time.monotonic() - began) / 60
            console.print(
                f"{minutes:.0f} min: {left} left, last {result['scenario']} {result['policy']}", markup=False
            )

    results = run_all(cells, given.out / "cells", given.jobs, progress)
    fleet = scale.measured(given.pools)
    found = [*figures(results), *of_published_sets(), *scale.figures(fleet, given.pools)]
    not_met = missed(found)
    about = {**_about(given, seeds, time.monotonic() - began), **made_by, "fleet": fleet}
    write(given.out / "tuner.json", results, found, about)
    _log(given.out / "runs.jsonl", {**about, "missed": not_met, "figures": found})
    show(console, results, found)
    draw_regret(results, given.out / "regret.png")
    draw_disable(results, given.out / "disable.png")
    draw_day(seeds[0], given.day_hours, given.out / "day.png")
    console.print(f"{about['minutes']:.0f} min; figures and pictures in {given.out}", soft_wrap=True)
    if not_met:
        console.print(f"missed: {'; '.join(not_met)}", style="red", soft_wrap=True)
    return 1 if not_met else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dev.evaluation", description=__doc__)
    parser.add_argument(
        "--seeds", type=Path, default=HELD_OUT, metavar="FILE", help="one seed a line; default: held-out"
    )
    parser.add_argument("--first", type=int, metavar="N", help="only the first N seeds of the file")
    parser.add_argument("--scenarios", nargs="+", metavar="NAME", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--policies", nargs="+", metavar="NAME", help=f"of {', '.join(POLICIES)}")
    parser.add_argument("--hours", type=float, help="cut every scenario to that length")
    parser.add_argument("--pools", type=int, default=scale.POOLS, help="pools of the fleet that is measured")
    parser.add_argument("--day-hours", type=float, default=24.0, help="length of the picture of one pool")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cells at once")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "evaluation", metavar="FOLDER")
    return parser


def _about(given: argparse.Namespace, seeds: tuple[int, ...], seconds: float) -> dict[str, Any]:
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "minutes": round(seconds / 60, 1),
        "seedsFile": given.seeds.name,
        "seeds": list(seeds),
        "scenarios": given.scenarios or list(SCENARIOS),
        "policies": given.policies or list(POLICIES),
        "hours": given.hours,
    }


def _commit() -> str | None:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or None


def _log(path: Path, line: Mapping[str, Any]) -> None:
    """Every run leaves its line, so that no variant that lost is forgotten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:
        log.write(written(line, indent=None))


if __name__ == "__main__":
    sys.exit(main())
