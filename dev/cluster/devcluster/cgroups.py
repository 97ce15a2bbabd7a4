"""The cgroups of one cluster: the kernel's own record of every process that descends from it.

Daemons live in one child, pods in another that the kubelet makes. Both are ended by what the kernel lists, so
nothing that a container started can be missed and nothing else can be hit.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from devcluster.errors import ClusterError

DAEMONS = "daemons"


def hierarchies() -> list[Path]:
    """Answer where the cgroup trees are mounted: one for cgroup v2, one per controller for v1, or both."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    return [Path(fields[1]) for fields in mounts if fields[2] in {"cgroup", "cgroup2"}]


def tracking_hierarchy() -> Path:
    """Answer the tree by which the cluster's processes are found: kubelet and runc put every pod into it."""
    trees = hierarchies()
    return next((tree for tree in trees if tree.name == "pids"), trees[0])


def create(name: str) -> Path:
    """Make the cluster's cgroup in every tree; answer the file that moves a process among the daemons."""
    for tree in hierarchies():
        folder = tree / name
        folder.mkdir(exist_ok=True)
        # A new cpuset is empty, and nothing can run in it until it has the parent's processors and memory.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            target = folder / setting
            if tree.name == "cpuset" and not target.read_text(encoding="ascii").strip():
                target.write_text((tree / setting).read_text(encoding="ascii"), encoding="ascii")
    daemons = tracking_hierarchy() / name / DAEMONS
    daemons.mkdir(exist_ok=True)
    return daemons / "cgroup.procs"


def processes(name: str) -> Iterator[int]:
    """Answer every process of the cluster, those of its pods included."""
    for listing in (tracking_hierarchy() / name).glob("**/cgroup.procs"):
        try:
            yield from map(int, listing.read_text(encoding="ascii").split())
        except (FileNotFoundError, ProcessLookupError):
            continue


def has_any(prefix: str) -> bool:
    """Say whether a cgroup whose name starts so exists."""
    return any(tracking_hierarchy().glob(f"{prefix}*"))


def end(name: str) -> None:
    """End every process of the cluster and remove its cgroups; nothing happens without any."""
    _kill(name)
    _remove(name)


def _kill(name: str, limit_seconds: float = 30.0) -> None:
    deadline = time.monotonic() + limit_seconds
    while found := list(processes(name)):
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {found} of cgroup {name} do not end after {limit_seconds:.0f} s")
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def _remove(name: str, limit_seconds: float = 10.0) -> None:
    # A tree lets go of its last process with a short delay.
    deadline = time.monotonic() + limit_seconds
    for tree in hierarchies():
        for folder in sorted((tree / name).glob("**/"), reverse=True):
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise ClusterError(f"cannot remove cgroup {folder}: {error}") from error
                    time.sleep(0.05)
