"""Run a command of another program, and tell its last words when it fails."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import ClusterError

TAIL_LINES = 20


def say(message: str) -> None:
    """Tell the user what happens, on stderr: stdout carries results that other programs read."""
    print(f"cluster: {message}", file=sys.stderr, flush=True)


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """Answer the last lines of a text."""
    return "\n".join(text.splitlines()[-lines:])


def run(
    argv: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    log: Path | None = None,
) -> str:
    """Run a command to its end and answer its stdout; with ``log`` both streams are kept in that file too.

    Raises ClusterError with the command, its exit status and the tail of what it said.
    """
    command = [str(word) for word in argv]
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise ClusterError(f"program {command[0]!r} is not installed") from error
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{done.stdout}\n{done.stderr}", encoding="utf-8")
    if done.returncode != 0:
        where = f" (whole log: {log})" if log else ""
        words = tail(done.stderr or done.stdout)
        raise ClusterError(f"`{' '.join(command)}` failed with status {done.returncode}{where}:\n{words}")
    return done.stdout
