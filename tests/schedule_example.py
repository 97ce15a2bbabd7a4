"""The schedule file that design/contracts.md gives as its example; operator and engines both read it."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "format": 1,
    "version": 12,
    "fence": 7,
    "issuedAt": "2026-01-01T00:00:00Z",
    "maxDepth": 5,
    "table": [{"maxRequests": 8, "depth": 5}, {"maxRequests": 48, "depth": 2}, {"depth": 0}],
}
