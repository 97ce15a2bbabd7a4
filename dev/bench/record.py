"""`python -m dev.bench.record OUT`: load points of real engines, to hold the simulator against.

A load point is so many users who ask at once, each for a fixed number of tokens, at one depth. What an engine
did is read from its own counters before and after. Every point is taken several times, in rounds over all
points, and one whose time per token is the median is kept: another process may have had the core meanwhile.
"""

import argparse
import json
import os
import re
import signal
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.bench.arms import Peer, start_engine, start_vllm
from dev.bench.prompts import fresh_prompts, repetitive_prompts
from dev.bench.vllm_cpu import provide_vllm
from dev.models.smollm2 import cache_folder, provide

from specfleet_engine.kernels.capability import cpu_flags, multiplies_bfloat16

REPOSITORY = Path(__file__).parents[2]
LOGS = REPOSITORY / "build" / "bench-record"
MAX_DEPTH = 5
TOKENS = 96
ROUNDS = 5
_SERIES = re.compile(r"^([\w:]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_POSITION = re.compile(r'position="(\d+)"')


@dataclass(frozen=True, slots=True)
class Point:
    """``text`` is fresh, so that a look-up finds next to nothing to draft, or repetitive."""

    users: int
    depth: int
    text: str


BUILTIN = (
    *(Point(users, 0, "fresh") for users in (1, 4, 8, 16)),
    *(Point(users, depth, "repetitive") for users in (1, 4, 8) for depth in (2, 5)),
)
# Without points of many drafted tokens, more numbers of users tell where compute takes over.
VLLM = tuple(Point(users, 0, "fresh") for users in (1, 2, 4, 8, 12, 16))


def main() -> int:
    """Read the command line, record, write."""
    parser = argparse.ArgumentParser(prog="python -m dev.bench.record", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for builtin.json and vllm.json")
    parser.add_argument("--engines", nargs="+", choices=("builtin", "vllm"), default=["builtin", "vllm"])
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.engines:
        with ExitStack() as ending:
            record = _builtin(ending) if name == "builtin" else _vllm(ending)
        (given.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def _builtin(ending: ExitStack) -> dict[str, Any]:
    model = cache_folder() / "models" / "smollm2"
    provide(model)
    flags = ["--method", "ngram", "--max-depth", str(MAX_DEPTH)]
    engine, _ = start_engine("builtin", model, LOGS, ending, flags)
    return _record("built-in engine, SmolLM2-135M, bfloat16, n-gram", engine, BUILTIN, engine.set_depth)


def _vllm(ending: ExitStack) -> dict[str, Any]:
    model, cores = cache_folder() / "models" / "smollm2", sorted(os.sched_getaffinity(0))
    provide(model)
    dtype = "bfloat16" if multiplies_bfloat16(cpu_flags()) else "float32"
    peer = start_vllm(provide_vllm(cache_folder()), model, dtype, cores, LOGS, ending)
    return _record(f"vLLM 0.32.0, SmolLM2-135M, {dtype}", peer, VLLM, lambda depth, limit: None)


def _record(
    engine: str, peer: Peer, points: Sequence[Point], set_depth: Callable[[int, int], None]
) -> dict[str, Any]:
    taken: dict[Point, list[dict[str, Any]]] = {point: [] for point in points}
    # The first round warms caches up and is not kept.
    for number in range(ROUNDS + 1):
        for point in points:
            set_depth(point.depth, MAX_DEPTH)
            one = _take(peer, point)
            if number:
                taken[point].append(one)
    middle = [middle_of(taken[point]) for point in points]
    return {"engine": engine, "cores": len(os.sched_getaffinity(0)), "points": middle}


def _take(peer: Peer, point: Point) -> dict[str, Any]:
    prompts = (fresh_prompts if point.text == "fresh" else repetitive_prompts)(point.users)
    before = _page(peer)
    peer.measure(prompts, TOKENS)
    found = _page(peer)
    found.subtract(before)
    tokens = found["vllm:generation_tokens_total"] - found["vllm:time_to_first_token_seconds_count"]
    events = found["vllm:inter_token_latency_seconds_count"]
    return {
        "users": point.users,
        "depth": point.depth,
        "text": point.text,
        "promptTokens": found["vllm:prompt_tokens_total"] / point.users,
        "outputTokens": TOKENS,
        "tokenSeconds": found["vllm:inter_token_latency_seconds_sum"] / tokens,
        "acceptedLength": tokens / events,
        "drafted": _by_position(found, "specfleet_draft_positions_total"),
        "accepted": _by_position(found, "vllm:spec_decode_num_accepted_tokens_per_pos_total"),
        "events": events,
    }


def _by_position(found: Mapping[str, float], name: str) -> list[float]:
    return [value for key, value in sorted(found.items()) if key.startswith(f"{name}@")]


def middle_of(taken: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Give the run whose time per token is the median, with the range of that time over all."""
    ordered = sorted(taken, key=lambda one: float(one["tokenSeconds"]))
    span = [ordered[0]["tokenSeconds"], ordered[-1]["tokenSeconds"]]
    return {**ordered[len(ordered) // 2], "tokenSecondsRange": span}


def _page(peer: Peer) -> Counter[str]:
    """Read all counters, summed over their labels but for positions."""
    with peer.server.working():
        url = f"http://127.0.0.1:{peer.server.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
    found: Counter[str] = Counter()
    for name, labels, value in _SERIES.findall(text):
        position = _POSITION.search(labels)
        found[f"{name}@{position[1]}" if position else name] += float(value)  # type: ignore[assignment]
    return found


if __name__ == "__main__":
    sys.exit(main())
