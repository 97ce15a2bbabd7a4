"""The flags that every engine shares, and what the serving side keeps of them."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from specfleet_serving.draft_summary import Level

LARGEST_DEPTH = 16


@dataclass(frozen=True)
class Settings:
    """How to serve one core."""

    served_model_name: str
    host: str = "0.0.0.0"  # noqa: S104  a pod is reached from outside of it
    port: int = 8000
    schedule_file: Path | None = None
    initial_depth: int = 0
    drain_seconds: float = 30.0
    max_queued_requests: int = 512
    max_body_bytes: int = 4 * 1024 * 1024
    stall_seconds: float = 120.0
    answer_metrics: Level = "none"


def whole(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Make an argparse type for whole numbers within bounds, both inclusive."""

    def number(text: str) -> int:
        value = int(text)
        if value < lowest or (highest is not None and value > highest):
            raise argparse.ArgumentTypeError(f"must be within {lowest}..{highest or ''}, got {value}")
        return value

    return number


def positive(text: str) -> float:
    """Read a finite number above 0; an argparse type."""
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be above 0, got {text}")
    return value


def add_common_arguments(
    parser: argparse.ArgumentParser, methods: tuple[str, ...] = ("ngram", "none")
) -> None:
    """Add the flags of design/contracts.md that do not depend on the engine, which drafts by ``methods``."""
    add = parser.add_argument
    add("--served-model-name", required=True, help="name that requests must give as model")
    add("--host", default=Settings.host, help="address to listen on")
    add("--port", type=whole(0, 65535), default=Settings.port, help="port for HTTP and /metrics")
    add("--schedule-file", type=Path, help="schedule.json to follow while serving")
    add(
        "--initial-depth", type=whole(0, LARGEST_DEPTH), default=0, help="depth until a schedule file is read"
    )
    add("--max-depth", type=whole(0, LARGEST_DEPTH), default=0, help="deepest that a schedule may ask for")
    add("--method", choices=methods, default="none", help="proposer; none needs --max-depth 0")
    add("--ngram-min-match", type=whole(1), default=2, help="shortest match that makes a draft")
    add("--ngram-max-match", type=whole(1), default=5, help="longest match that is looked for")
    add("--max-model-len", type=whole(16), default=4096, help="tokens of prompt and answer together")
    add("--max-num-seqs", type=whole(1), default=64, help="requests in one batch")
    add(
        "--drain-seconds",
        type=positive,
        default=Settings.drain_seconds,
        help="time for streams after SIGTERM",
    )
    add(
        "--max-queued-requests",
        type=whole(1),
        default=Settings.max_queued_requests,
        help="waiting requests above which new ones get 429",
    )
    add(
        "--max-body-bytes",
        type=whole(1024),
        default=Settings.max_body_bytes,
        help="size above which a request gets 413",
    )
    add(
        "--stall-seconds",
        type=positive,
        default=Settings.stall_seconds,
        help="duration of one step above which /health fails",
    )
    add(
        "--per-request-spec-decode-metrics",
        choices=get_args(Level),
        default=Settings.answer_metrics,
        help="tell in each answer how its drafts fared; under vLLM's name and in its shape",
    )


def settings_from(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> Settings:
    """Keep the serving side's flags. Flags that contradict each other end the program with a message."""
    if arguments.method == "none" and arguments.max_depth > 0:
        parser.error(f"--max-depth {arguments.max_depth} needs a proposer: give --method, or --max-depth 0")
    if arguments.initial_depth > arguments.max_depth:
        parser.error(f"--initial-depth {arguments.initial_depth} is above --max-depth {arguments.max_depth}")
    if arguments.ngram_min_match > arguments.ngram_max_match:
        parser.error(
            f"--ngram-min-match {arguments.ngram_min_match} is above "
            f"--ngram-max-match {arguments.ngram_max_match}"
        )
    return Settings(
        served_model_name=arguments.served_model_name,
        host=arguments.host,
        port=arguments.port,
        schedule_file=arguments.schedule_file,
        initial_depth=arguments.initial_depth,
        drain_seconds=arguments.drain_seconds,
        max_queued_requests=arguments.max_queued_requests,
        max_body_bytes=arguments.max_body_bytes,
        stall_seconds=arguments.stall_seconds,
        answer_metrics=arguments.per_request_spec_decode_metrics,
    )
