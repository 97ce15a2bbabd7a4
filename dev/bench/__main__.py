"""`python -m dev.bench`: measure, judge, report. Exits with 1 when a figure that must be met is not."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dev.bench.arms import Generator, Peer, start_engine, start_twins, start_vllm
from dev.bench.errors import BenchError, PeerMissing
from dev.bench.figures import figures
from dev.bench.report import draw, write_report
from dev.bench.rounds import MAX_DEPTH, SECTIONS, Arms, run_section
from dev.bench.servers import resident_bytes
from dev.bench.vllm_cpu import provide_vllm
from dev.figures import missed
from dev.models.smollm2 import cache_folder, provide
from dev.tables import figures_table, report_console
from rich.console import Console

from specfleet_engine.kernels.capability import cpu_flags, multiplies_bfloat16

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "build" / "bench-engine"
REPORT = FOLDER / "report.json"
STARTS = 3
IDLE = "import time, torch, transformers; print('idle', flush=True); time.sleep(600)"


def main() -> int:
    """Read the command line, run, judge."""
    parser = argparse.ArgumentParser(prog="python -m dev.bench", description=__doc__)
    parser.add_argument("--judge", type=Path, metavar="REPORT", help="judge and draw a finished run again")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="NAME")
    parser.add_argument("--without-vllm", action="store_true", help="compare with transformers only")
    given = parser.parse_args()
    # So that the processes are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = report_console()
    began = time.monotonic()
    try:
        record = (
            json.loads(given.judge.read_text(encoding="utf-8")) if given.judge else _perform(given, console)
        )
    except BenchError as error:
        console.print(f"bench-engine: {error}", style="red", markup=False)
        return 1
    found = figures(record)
    write_report(REPORT, record, found)
    draw(FOLDER / "report.png", record)
    console.print(figures_table(found, "Speed of the built-in engine"))
    if "vllm" not in record["peers"]:
        console.print(f"peer missing: not judged against vLLM ({record['vllm_missing']})", soft_wrap=True)
    must, stretch = missed(found, "must"), missed(found, "stretch")
    verdict = f"{len(must)} musts and {len(stretch)} stretch figures missed of {len(found)}"
    minutes = (time.monotonic() - began) / 60
    console.print(f"bench-engine: {verdict}; {minutes:.0f} min; {REPORT}", soft_wrap=True)
    return 1 if must else 0


def _perform(given: argparse.Namespace, console: Console) -> dict[str, Any]:
    model, cores = cache_folder() / "models" / "smollm2", sorted(os.sched_getaffinity(0))
    provide(model)
    # Peers get the type that is fastest for them.
    dtype = "bfloat16" if multiplies_bfloat16(cpu_flags()) else "float32"
    record: dict[str, Any] = {"dtype": dtype, "cores": len(cores), "rounds": []}
    record["weight_bytes"] = sum(file.stat().st_size for file in model.glob("*.safetensors"))
    with ExitStack() as ending:
        idle = _idle_bytes()
        record["start_seconds"] = [_start_seconds(model) for _ in range(STARTS - 1)]
        ours, seconds = start_engine("ours", model, FOLDER, ending)
        record["start_seconds"].append(seconds)
        record["kernel"] = _logged(FOLDER / "ours.log", "kernel")
        record["memory"] = {"idle": idle, "kv": int(_logged(FOLDER / "ours.log", "kv_mib")) << 20}
        depth = ["--max-depth", str(MAX_DEPTH)]
        flags = {
            "plain": [],
            "ngram": ["--method", "ngram", *depth],
            # Drafts with the target itself: what is asked of it here is only to be there.
            "draft-model": ["--method", "draftModel", "--proposer", str(model), *depth],
        }
        plain, drafting, with_draft_model = start_twins(flags, model, FOLDER, ending)
        generator = Generator.start(model, dtype, FOLDER, ending)
        peers: dict[str, Peer] = {"transformers": generator}
        try:
            if given.without_vllm:
                raise PeerMissing("left out by --without-vllm")
            console.print("bench-engine: vLLM is being started, and installed if it is not there yet")
            peers["vllm"] = start_vllm(provide_vllm(cache_folder()), model, dtype, cores, FOLDER, ending)
        except (PeerMissing, BenchError) as error:
            record["vllm_missing"] = str(error)
        record["peers"] = list(peers)
        arms = Arms(ours, plain, drafting, with_draft_model, generator, peers)
        for section in given.sections:
            _measure(section, arms, record["rounds"], console)
            record["memory"]["engine"] = resident_bytes(ours.server.pid)
            # A run that is stopped leaves what it has: `--judge` makes figures of it.
            write_report(REPORT, record, figures(record))
    return record


def _measure(section: str, arms: Arms, rounds: list[dict[str, Any]], console: Console) -> None:
    """Add the rounds of a section. One that breaks costs its figures, not those of the others."""
    began = time.monotonic()
    try:
        for one in run_section(section, arms):
            rounds.append(one)
    except BenchError as error:
        console.print(f"bench-engine: {section}: {error}", style="red", markup=False)
    console.print(f"bench-engine: {section} took {time.monotonic() - began:.0f} s")


def _start_seconds(model: Path) -> float:
    """Start the engine, end it, and give the seconds until it had answered."""
    with ExitStack() as ending:
        return start_engine("start", model, FOLDER, ending)[1]


def _logged(log: Path, field: str) -> str:
    """Give a field of the line that says what the engine loaded. Raises BenchError."""
    found = re.search(rf" {field}=(\S+)", log.read_text(encoding="utf-8"))
    if not found:
        raise BenchError(f"{log} does not say {field}")
    return found[1]


def _idle_bytes() -> int:
    """Resident memory of a process that has only imported torch and transformers."""
    command: Sequence[str] = [sys.executable, "-c", IDLE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = resident_bytes(process.pid)
        process.kill()
    return found


if __name__ == "__main__":
    sys.exit(main())
