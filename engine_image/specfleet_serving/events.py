"""What happens to a request, as far as `metrics` counts it."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["stop", "length", "abort", "error", "repetition"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What one request got from one step, trimmed to its end. ``gap_seconds`` is None for a first token."""

    tokens: int
    drafted: int
    accepted: int
    gap_seconds: float | None


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """When a request passed its stages, in seconds of one monotonic clock; None: it never got there."""

    arrived: float
    admitted: float | None
    first_token: float | None
    last_token: float | None
    tokens: int
