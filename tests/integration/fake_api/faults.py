"""Faults on demand. Each waits for a call that it fits, happens once, and is gone."""

import re
from dataclasses import dataclass, field
from typing import Literal

Way = Literal[403, 429, 500, 409, 410, "timeout", "lost answer"]


@dataclass(frozen=True)
class Fault:
    """``lost answer``: the call is done, but the client gets 500. ``timeout``: never answered."""

    way: Way
    verb: str = ".*"
    path: str = ".*"

    def fits(self, verb: str, path: str) -> bool:
        return re.fullmatch(self.verb, verb) is not None and re.search(self.path, path) is not None


@dataclass
class Faults:
    waiting: list[Fault] = field(default_factory=list)

    def add(self, way: Way, *, verb: str = ".*", path: str = ".*", times: int = 1) -> None:
        self.waiting += [Fault(way, verb, path)] * times

    def next(self, verb: str, path: str) -> Way | None:
        for fault in self.waiting:
            if fault.fits(verb, path):
                self.waiting.remove(fault)
                return fault.way
        return None
