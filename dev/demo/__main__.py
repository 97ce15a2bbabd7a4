"""`python -m dev.demo`: one run from chart to verdict. Exits with 1 when a figure that must be met is not."""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from dev.demo.errors import DemoError
from dev.demo.figures import figures
from dev.demo.installation import REPOSITORY
from dev.demo.picture import draw
from dev.demo.plan import PLANS, Plan
from dev.demo.report import print_verdict, write_report
from dev.demo.run import perform
from dev.figures import missed
from dev.tables import report_console


def main() -> int:
    """Read the command line, run, judge."""
    parser = argparse.ArgumentParser(prog="python -m dev.demo", description=__doc__)
    parser.add_argument("--engine", choices=sorted(PLANS), default="builtin")
    parser.add_argument("--judge", type=Path, metavar="REPORT", help="judge and draw a finished run again")
    parser.add_argument(
        "--references",
        type=Path,
        default=REPOSITORY / "build" / "images.json",
        metavar="FILE",
        help="images to install, as dev/cluster writes them; the chart's defaults hold for what it lacks",
    )
    given = parser.parse_args()
    console = report_console()
    started = time.monotonic()
    try:
        if given.judge:
            record: dict[str, Any] = json.loads(given.judge.read_text(encoding="utf-8"))
            folder = given.judge.parent
        else:
            plan = PLANS[given.engine]
            folder = folder_of(plan)
            record = asyncio.run(_until_told(perform(plan, given.references, console)))
    except DemoError as error:
        console.print(f"demo: {error}", style="red", markup=False)
        return 1
    found = figures(record)
    write_report(folder / "report.json", record, found)
    draw(record, folder / "run.png")
    print_verdict(console, record, found)
    minutes = (time.monotonic() - started) / 60
    console.print(
        f"{minutes:.0f} min; report {folder / 'report.json'}, picture {folder / 'run.png'}", soft_wrap=True
    )
    if not_met := missed(found):
        console.print(f"missed: {'; '.join(not_met)}", style="red", soft_wrap=True)
        return 1
    return 0


async def _until_told(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Do the work; SIGTERM ends it as an interrupt does, so that no kubectl is left behind."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise DemoError("stopped before its end: there are no figures") from None


def folder_of(plan: Plan) -> Path:
    """Where a run's report and picture go."""
    name = "demo" if plan.engine == "builtin" else f"demo-{plan.engine}"
    return REPOSITORY / "build" / name


if __name__ == "__main__":
    sys.exit(main())
