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
    input_text: str | None = None,
) -> str:
    """Run a command to its end and answer its stdout; with ``log`` both streams go to that file instead.

    Raises ClusterError with the command, its exit status and the tail of what it said.
    """
    command = [str(word) for word in argv]
    try:
        if log is None:
            done = subprocess.run(
                command,
                env=environment,
                cwd=folder,
                input=input_text,
                capture_output=True,
                text=True,
                check=False,
            )
            said = done.stderr or done.stdout
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("w", encoding="utf-8") as stream:
                done = subprocess.run(
                    command, env=environment, cwd=folder, stdout=stream, stderr=stream, text=True, check=False,
                    stdin=subprocess.DEVNULL,
                )  # fmt: skip
            said = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise ClusterError(f"program {command[0]!r} is not installed") from error
    if done.returncode != 0:
        where = f" (whole log: {log})" if log else ""
        raise ClusterError(
            f"`{' '.join(command)}` failed with status {done.returncode}{where}:\n{tail(said)}"
        )
    return done.stdout or ""
