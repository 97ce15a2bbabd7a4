"""Go durations: how Kubernetes users write times. Inside specfleet a time is a float in seconds."""

import re

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}

# Four parts of six digits stay far inside Go's 64-bit nanoseconds. Hours make no sense as an objective.
PATTERN = "^([0-9]{1,6}([.][0-9]{1,3})?(us|ms|s|m)){1,4}$"

_WHOLE = re.compile(PATTERN)
_PART = re.compile("([0-9.]+)(us|ms|s|m)")


def seconds(text: str) -> float:
    """Read a Go duration such as ``40ms`` or ``1m30s`` as seconds. Raises ValueError for anything else."""
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no Go duration with units us, ms, s or m, such as 40ms or 1.5s")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
