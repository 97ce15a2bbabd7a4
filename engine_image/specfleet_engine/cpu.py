"""How many threads torch should use: the cores that this process may really use.

torch counts the cores of the machine. In a container with a CPU limit that makes threads wait for each
other at each barrier while the kernel throttles them.
"""

import os
from pathlib import Path

__all__ = ["usable_cores"]


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores by affinity and by the CPU quota of the cgroup (version 2 or 1), rounded down, at least 1."""
    cores = len(os.sched_getaffinity(0))
    quota = _quota_v2(cgroup / "cpu.max") or _quota_v1(cgroup / "cpu")
    return max(1, min(cores, int(quota))) if quota else cores


def _quota_v2(file: Path) -> float | None:
    text = _read(file)
    if text is None or text.startswith("max"):
        return None
    quota, period = text.split()
    return int(quota) / int(period)


def _quota_v1(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if quota is None or period is None or int(quota) <= 0:
        return None
    return int(quota) / int(period)


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return None
