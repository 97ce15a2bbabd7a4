"""Circuit breaker: after repeated failures a source is left alone for a while.

A thread that waits for a dead Prometheus cannot be stopped; without the breaker every pass would
tie up another one until the pool of two is gone.
"""

from collections.abc import Callable

FAILURES_TO_OPEN = 3


class Circuit:
    """Closed until three failures in a row; then open for ``open_seconds``; then one attempt decides."""

    def __init__(self, open_seconds: float, clock: Callable[[], float]) -> None:
        self._open_seconds = open_seconds
        self._clock = clock
        self._failures = 0
        self._closed_at = 0.0

    def seconds_until_attempt(self) -> float:
        """Say how long the source is still left alone; 0 when a query may be sent."""
        if self._failures < FAILURES_TO_OPEN:
            return 0.0
        return max(0.0, self._closed_at - self._clock())

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES_TO_OPEN:
            self._closed_at = self._clock() + self._open_seconds
