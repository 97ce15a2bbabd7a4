"""What is free is the least of what the machine and the cgroup leave, files that were read not counted."""

from pathlib import Path

import pytest
import torch

from specfleet_engine.errors import MemoryMissing
from specfleet_engine.memory import check_memory, free_bytes

CPU = torch.device("cpu")
MIB = 1 << 20


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:       8000000 kB\nMemAvailable:   4194304 kB\nHugePages_Total:       0\n")
    return file


def a_cgroup(folder: Path, limit: str, files: tuple[str, str], prefix: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(files, (limit, str(1000 * MIB)), strict=True):
        (folder / name).write_text(f"{text}\n")
    (folder / "memory.stat").write_text(
        f"anon 5\n{prefix}inactive_file {200 * MIB}\n{prefix}active_file {56 * MIB}\n"
    )


def test_without_a_limit_it_is_what_the_machine_has(tmp_path: Path, meminfo: Path) -> None:
    assert free_bytes(CPU, tmp_path / "none", meminfo) == 4096 * MIB


def test_a_limit_counts_without_the_files_that_were_read(tmp_path: Path, meminfo: Path) -> None:
    a_cgroup(tmp_path / "two", str(3000 * MIB), ("memory.max", "memory.current"))
    a_cgroup(
        tmp_path / "one/memory",
        str(2000 * MIB),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        prefix="total_",
    )

    # 3,000 (2,000) may be used, 1,000 are, of which 256 would be given up.
    assert free_bytes(CPU, tmp_path / "two", meminfo) == 2256 * MIB
    assert free_bytes(CPU, tmp_path / "one", meminfo) == 1256 * MIB


def test_a_cgroup_without_a_limit_leaves_what_the_machine_has(tmp_path: Path, meminfo: Path) -> None:
    a_cgroup(tmp_path / "two", "max", ("memory.max", "memory.current"))

    assert free_bytes(CPU, tmp_path / "two", meminfo) == 4096 * MIB


@pytest.mark.fault("vllm#9995")
def test_what_the_largest_step_cannot_get_is_refused_before_it_runs() -> None:
    check_memory(800 * MIB, 200 * MIB, 1000 * MIB)

    with pytest.raises(MemoryMissing, match=r"takes 800 MiB .* sampled, 201 MiB, but 1000 MiB are free"):
        check_memory(800 * MIB, 201 * MIB, 1000 * MIB)
