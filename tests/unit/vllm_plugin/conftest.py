"""A scheduler that follows a file, and its page."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.vllm_plugin.standin import Scheduler

Make = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path that the plug-in is told to follow; nothing is there yet."""
    path = tmp_path / "schedule.json"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("SPECFLEET_SCHEDULE_FILE", str(path))
    monkeypatch.setenv("SPECFLEET_METRICS_PORT", str(port))
    return path


@pytest.fixture
def make(file: Path) -> Iterator[Make]:
    """Make schedulers of a class, whose threads end with the test."""
    made: list[Any] = []

    def build(kind: type = Scheduler, **fields: Any) -> Any:
        made.append(kind(**fields))
        return made[-1]

    yield build
    for scheduler in made:
        scheduler.shutdown()
