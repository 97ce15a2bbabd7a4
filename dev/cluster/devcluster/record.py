"""What the tool remembers about one running cluster, in one file of its state folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.settings import Ranges


@dataclass(frozen=True, slots=True)
class Process:
    """A started process. Its start, in clock ticks since boot, tells it from a later one with the same id."""

    pid: int
    start_ticks: int

    def is_alive(self) -> bool:
        """Say whether this very process runs; a zombie does not."""
        found = start_ticks(self.pid)
        return found is not None and found == self.start_ticks


def start_ticks(pid: int) -> int | None:
    """Answer when the process started; None when it is gone or only waits to be reaped."""
    try:
        content = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # Field 2 is the name in parentheses, which may hold anything; 3 is the state, 22 the start.
    fields = content.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


@dataclass(slots=True)
class Record:
    """One cluster's life: its address slot, what it was made from, and its processes."""

    slot: int
    fingerprint: str = ""
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def ranges(self) -> Ranges:
        """The cluster's addresses."""
        return Ranges(self.slot)


def write_record(path: Path, record: Record) -> None:
    """Save the record whole: a reader sees the old one or the new one."""
    content: Mapping[str, object] = {
        "slot": record.slot,
        "fingerprint": record.fingerprint,
        "processes": {name: [found.pid, found.start_ticks] for name, found in record.processes.items()},
    }
    partial = path.with_suffix(".new")
    partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    partial.replace(path)


def read_record(path: Path) -> Record | None:
    """Read the record; None when there is no cluster."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Record(
        slot=content["slot"],
        fingerprint=content["fingerprint"],
        processes={name: Process(pid, ticks) for name, (pid, ticks) in content["processes"].items()},
    )
