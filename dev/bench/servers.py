"""The processes of a run: started, stopped and continued one at a time, and ended together."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dev.bench.errors import BenchError

__all__ = ["Group", "Server", "free_port", "resident_bytes"]

_POLL_SECONDS = 0.05


class Group:
    """A process group with an HTTP server in it, which works only when it is asked to."""

    def __init__(self, name: str, leader: int, port: int) -> None:
        self.name = name
        self.pid = leader
        self.port = port

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let the group work inside the block only: an idle server still wakes up, and vLLM's spins."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.rest()

    def rest(self) -> None:
        """Stop the group until it works again."""
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return


class Server(Group):
    """A group that is started here, and ended with its children."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], port: int, log: Path
    ):
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        super().__init__(name, self._process.pid, port)

    def wait_ready(self, path: str, seconds: float, ports: Sequence[int] = ()) -> float:
        """Wait for 200 from ``path`` on all ``ports``, its own if none; give the seconds since the start.

        Raises BenchError, and leaves no process behind if it raises anything.
        """
        try:
            while self._process.poll() is None and time.monotonic() - self._began < seconds:
                if all(_answers(port, path) for port in ports or (self.port,)):
                    return time.monotonic() - self._began
                time.sleep(_POLL_SECONDS)
            raise BenchError(f"{self.name} was not ready within {seconds:.0f} s: see {self._log}")
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End the whole group: a killed parent of vLLM leaves workers behind that burn a core."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._signal(signal.SIGKILL)
        self._process.wait(20)


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


def free_port() -> int:
    """Ask the system for a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def resident_bytes(pid: int) -> int:
    """Resident memory of one process, in bytes, as Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
