"""Threads follow the limits of the container."""

import os
from pathlib import Path

import pytest

from specfleet_engine.cpu import usable_cores

CORES = len(os.sched_getaffinity(0))


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"cpu.max": "100000 100000\n"}, 1, id="version-2"),
        pytest.param({"cpu.max": "50000 100000\n"}, 1, id="version-2-less-than-one-core"),
        pytest.param({"cpu.max": "max 100000\n"}, CORES, id="version-2-without-limit"),
        pytest.param(
            {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1, id="version-1"
        ),
        pytest.param(
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, CORES, id="version-1-none"
        ),
        pytest.param({}, CORES, id="no-cgroup"),
    ],
)
def test_threads_are_the_cores_that_the_cgroup_grants(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    assert usable_cores(write(tmp_path, files)) == expected
