"""Running cells: several at once, each written to disk when it is done, so that a stopped run goes on."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from dev.evaluation.canaries import judged
from dev.evaluation.plan import Cell, digest
from dev.evaluation.scenarios import CANARIES, OVERLOAD_AT, STEP_OVERLOAD
from dev.evaluation.score import score, seconds_to_final_depth
from dev.evaluation.worth import worth_of

from specfleet.simulator.policies import POLICIES
from specfleet.simulator.run import simulate

Result = dict[str, Any]
_CANARIES = {one.name for one in CANARIES}
OVERLOAD_SECONDS = 1800.0  # of overload within which the depth has to be final


def run_cell(cell: Cell) -> Result:
    """Run one cell and score it."""
    began = time.monotonic()
    run = simulate(cell.made(), POLICIES[cell.policy](cell.made()), cell.seed)
    worth = worth_of(run)
    figures = score(run, worth)
    if cell.scenario in _CANARIES:
        figures["canary"] = judged(run)
    if cell.scenario == STEP_OVERLOAD.name and run.scenario.seconds >= OVERLOAD_AT + OVERLOAD_SECONDS:
        figures["disable"] = seconds_to_final_depth(run, worth, OVERLOAD_AT, OVERLOAD_SECONDS)
    return {**asdict(cell), **figures, "wallSeconds": round(time.monotonic() - began, 2)}


def run_all(
    cells: Sequence[Cell], folder: Path, jobs: int, progress: Callable[[int, Result], None]
) -> list[Result]:
    """Give the results of all cells in their order, from disk where the same code made them.

    ``progress`` is called after each cell that was run, with the number of cells that are left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    codes = {policy: digest(policy) for policy in {cell.policy for cell in cells}}
    paths = {cell: folder / f"{cell.name}--{codes[cell.policy]}.json" for cell in cells}
    missing = [cell for cell, path in paths.items() if not path.exists()]
    for left, result in _running(missing, jobs):
        _write(paths[Cell(*(result[key] for key in ("scenario", "policy", "seed", "hours")))], result)
        progress(left, result)
    return [json.loads(paths[cell].read_text(encoding="utf-8")) for cell in cells]


def _running(cells: Sequence[Cell], jobs: int) -> Iterable[tuple[int, Result]]:
    if jobs == 1:
        for number, cell in enumerate(cells, start=1):
            yield len(cells) - number, run_cell(cell)
        return
    # Spawned, not forked: compiled code and BLAS keep threads.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(run_cell, cell) for cell in cells]
        broken: list[Exception] = []
        try:
            for number, future in enumerate(as_completed(futures), start=1):
                error = future.exception()
                if isinstance(error, Exception):
                    # Raised after all others: what they have found is kept.
                    broken.append(error)
                    continue
                yield len(cells) - number, future.result()
        finally:
            pool.shutdown(cancel_futures=True)
        if broken:
            raise ExceptionGroup(f"{len(broken)} cells could not be run", broken)


def _write(path: Path, result: Result) -> None:
    """Write whole or not at all: a run may be stopped at any moment."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result) + "\n", encoding="utf-8")
    part.replace(path)
