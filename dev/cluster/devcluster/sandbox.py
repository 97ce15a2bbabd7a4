"""The namespaces that keep a cluster off the host, and the processes inside them.

One process holds a network and a mount namespace; every program of the cluster enters both. When the last of
them has ended the kernel takes down bridges, links, iptables rules, routes and mounts by itself.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from devcluster import cgroups
from devcluster.errors import ClusterError
from devcluster.packages import SYSTEM_FOLDERS
from devcluster.record import Process, Record, start_ticks
from devcluster.settings import CGROUP_PREFIX, Ranges, Settings
from devcluster.shell import run, tail

HOLDER = "sandbox"
# Stopped before the rest is killed, so that what they keep on disk is whole.
STOPPED_GENTLY = ("containerd", "registry")
ENVIRONMENT = {"PATH": SYSTEM_FOLDERS, "HOME": "/root", "LANG": "C.UTF-8"}


def host_networks() -> list[str]:
    """Answer the networks that the host routes, the default route apart."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show"]) or "[]")
    return [route["dst"] for route in routes if route["dst"] != "default"]


class Sandbox:
    """The running side of one cluster; ``record`` is kept up to date by its methods, the caller saves it."""

    def __init__(self, settings: Settings, record: Record) -> None:
        self._settings = settings
        self._record = record

    def create(self) -> None:
        """Make cgroups, namespaces and the link to the host. The sandbox must not exist."""
        settings = self._settings
        for target, source in settings.binds.items():
            source.mkdir(parents=True, exist_ok=True)
            Path(target).mkdir(parents=True, exist_ok=True)
        ready = settings.run / "sandbox-ready"
        binds = [f"mount --bind '{source}' {target}" for target, source in settings.binds.items()]
        steps = ["set -e", "mount --make-rshared /", *binds, f"touch '{ready}'", "exec sleep infinity"]
        holder = ["unshare", "--net", "--mount", "--propagation", "slave", "sh", "-c", "; ".join(steps)]
        self._spawn(HOLDER, holder)
        self.wait(ready.exists, "the namespaces", 10.0)
        self._connect(self._record.ranges)

    def _connect(self, ranges: Ranges) -> None:
        pid = str(self._record.processes[HOLDER].pid)
        link = ranges.host_interface
        run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pid])
        run(["ip", "address", "add", f"{ranges.host}/30", "dev", link])
        run(["ip", "link", "set", link, "up"])
        inside = [
            "ip link set lo up",
            f"ip address add {ranges.node}/30 dev eth0",
            "ip link set eth0 up",
            # Never taken: iptables turns Service addresses into pods'. Without it the kernel refuses.
            f"ip route add {ranges.services} via {ranges.host}",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
        ]
        self.run(["sh", "-ec", "; ".join(inside)])
        for network in (ranges.pods, ranges.services):
            run(["ip", "route", "replace", network, "via", ranges.node, "dev", link])

    def _enter(self, command: Sequence[str]) -> list[str]:
        holder = str(self._record.processes[HOLDER].pid)
        return ["nsenter", "--target", holder, "--net", "--mount", "--", *command]

    def run(self, command: Sequence[str]) -> str:
        """Run a command inside to its end; answers its stdout."""
        return run(self._enter(command), environment=ENVIRONMENT)

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a program inside. Its output is appended to its log."""
        self._spawn(name, self._enter(command))

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        self._settings.logs.mkdir(parents=True, exist_ok=True)
        daemons = str(cgroups.create(self._settings.cgroup))
        with self.log(name).open("ab") as log:
            started = subprocess.Popen(
                ["sh", "-c", 'echo $$ > "$0" && exec "$@"', daemons, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env=ENVIRONMENT,
            )
        self._record.processes[name] = Process(started.pid, start_ticks(started.pid) or 0)

    def is_alive(self, name: str) -> bool:
        """Say whether the program was started and runs."""
        process = self._record.processes.get(name)
        return process is not None and process.is_alive()

    def log(self, name: str) -> Path:
        """The program's log."""
        return self._settings.logs / f"{name}.log"

    def wait(self, condition: Callable[[], bool], what: str, limit_seconds: float) -> None:
        """Poll until the condition holds. Raises ClusterError when a program ends or time runs out."""
        deadline = time.monotonic() + limit_seconds
        while not condition():
            for name in self._record.processes:
                if not self.is_alive(name):
                    raise ClusterError(f"{name} ended while waiting for {what}; {self._last_words(name)}")
            if time.monotonic() > deadline:
                words = "\n".join(
                    self._last_words(name, 5) for name in self._record.processes if name != HOLDER
                )
                raise ClusterError(f"no {what} after {limit_seconds:.0f} s\n{words}")
            time.sleep(0.1)

    def _last_words(self, name: str, lines: int = 20) -> str:
        log = self.log(name)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return f"{log} ends with:\n{tail(text, lines)}"

    def destroy(self) -> None:
        """End every process of the cluster and remove what they leave: link, cgroups, folders on the host."""
        for name in STOPPED_GENTLY:
            if self.is_alive(name):
                os.kill(self._record.processes[name].pid, signal.SIGTERM)
        deadline = time.monotonic() + 3.0
        while any(map(self.is_alive, STOPPED_GENTLY)) and time.monotonic() < deadline:
            time.sleep(0.05)
        cgroups.end(self._settings.cgroup)
        self._record.processes.clear()
        link = Path("/sys/class/net") / self._record.ranges.host_interface
        while link.exists():
            # The namespace goes with its last process, but not at once; deleting one end of the link is.
            subprocess.run(["ip", "link", "delete", link.name], capture_output=True, check=False)
            time.sleep(0.02)
        # Removing a folder takes away what another cluster has mounted on it in its own namespace.
        if not cgroups.has_any(CGROUP_PREFIX):
            for folder in map(Path, self._settings.binds):
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
