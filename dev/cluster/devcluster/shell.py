"""Run a command of another program, and tell its last words when it fails."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from devcluster.errors import ClusterError

TAIL_LINES = 20
# dpkg ends the package that it is at; debootstrap takes its mounts away.
CLEAN_UP_SECONDS = 30.0


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
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        raise ClusterError(f"program {command[0]!r} is not installed") from error
    with process:
        said, complained = _communicate(process)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{said}\n{complained}", encoding="utf-8")
    if process.returncode != 0:
        where = f" (whole log: {log})" if log else ""
        words = tail(complained or said)
        raise ClusterError(f"`{' '.join(command)}` failed with status {process.returncode}{where}:\n{words}")
    return said


def _communicate(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Read both streams to their end.

    What interrupts this tool, a terminal or its group's end, interrupts the program too, and it may clean up.
    """
    try:
        return process.communicate()
    except (KeyboardInterrupt, SystemExit):
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=CLEAN_UP_SECONDS)
        raise
    finally:
        process.kill()
