"""The schedule: a table from running requests to depth, the only thing that is ever pushed.

Written by the operator into a ConfigMap as ``schedule.json``, read by engines between two steps.
Format and refusal rules: design/contracts.md, "Schedule file".
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

FORMAT = 1
# Engines refuse more: above this a float cannot hold every integer, and metrics are floats.
LARGEST_INTEGER = 2**53


@dataclass(frozen=True, slots=True)
class Row:
    """``depth`` for running requests up to and including ``max_requests``; None: no upper end."""

    max_requests: int | None
    depth: int


Table = tuple[Row, ...]


def flat(depth: int) -> Table:
    """Give the table that has one depth for every load."""
    return (Row(None, depth),)


def depth_for(table: Table, running: int) -> int:
    """Look up the depth for a number of running requests."""
    for row in table:
        if row.max_requests is None or running <= row.max_requests:
            return row.depth
    raise ValueError("a schedule must end with an open row")


def reachable(table: Table, most: int) -> Table:
    """Cut a table to what ``most`` running requests can reach: the last row open, no two neighbours alike."""
    rows: list[Row] = []
    for row in table:
        last = row.max_requests is None or row.max_requests >= most
        if rows and rows[-1].depth == row.depth:
            rows.pop()
        rows.append(Row(None if last else row.max_requests, row.depth))
        if last:
            break
    return tuple(rows)


def problems(table: Sequence[Row], max_depth: int) -> tuple[str, ...]:
    """Say everything that is wrong with a table; empty: it may be pushed."""
    found: list[str] = []
    if not table:
        return ("a schedule needs at least one row: [{depth: N}]",)
    if table[-1].max_requests is not None:
        found.append("the last row must be open: leave out maxRequests")
    if any(row.max_requests is None for row in table[:-1]):
        found.append("only the last row may leave out maxRequests")
    bounds = [row.max_requests for row in table if row.max_requests is not None]
    if any(bound < 1 for bound in bounds):
        found.append("maxRequests must be at least 1")
    if any(later <= earlier for earlier, later in itertools.pairwise(bounds)):
        found.append("rows must be sorted by maxRequests, without repeats")
    found.extend(
        f"depth {row.depth} is outside 0..{max_depth}" for row in table if not 0 <= row.depth <= max_depth
    )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Document:
    """One ``schedule.json``: what is in force, and who issued it."""

    version: int
    fence: int
    max_depth: int
    table: Table
    issued_at: datetime

    def to_json(self) -> str:
        """Write the file's text, one stable form for equal documents."""
        return json.dumps(
            {
                "format": FORMAT,
                "version": self.version,
                "fence": self.fence,
                "issuedAt": self.issued_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "maxDepth": self.max_depth,
                "table": to_rows(self.table),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Document":
        """Read a file's text, as strictly as engines do. Raises ValueError if it is not a valid document.

        What engines refuse must not pass here: it would be waited for, and never put right.
        """
        try:
            body = json.loads(text)
            issued_at = datetime.fromisoformat(body["issuedAt"].replace("Z", "+00:00"))
            found = _whole(body, "format")
            document = cls(
                version=_whole(body, "version"),
                fence=_whole(body, "fence"),
                max_depth=_whole(body, "maxDepth"),
                table=from_rows(body["table"]),
                issued_at=issued_at,
            )
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"schedule.json lacks a field or has a wrong type: {error!r}") from error
        if found != FORMAT:
            raise ValueError(f"schedule.json has format {found}, this operator writes {FORMAT}")
        if issued_at.tzinfo is None:
            raise ValueError(f"issuedAt {body['issuedAt']} lacks its zone, such as Z")
        if wrong := problems(document.table, document.max_depth):
            raise ValueError("; ".join(wrong))
        return document


def to_rows(table: Table) -> list[dict[str, int]]:
    """Write a table as the rows of a file or a status."""
    return [
        {"depth": row.depth}
        if row.max_requests is None
        else {"maxRequests": row.max_requests, "depth": row.depth}
        for row in table
    ]


def from_rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Read the rows of a file or a status. Raises ValueError, KeyError or TypeError if they are none."""
    for row in rows:
        if unknown := sorted(row.keys() - {"maxRequests", "depth"}):
            raise ValueError(f"a row has maxRequests and depth, not {unknown[0]!r}")
    return tuple(
        Row(_whole(row, "maxRequests") if "maxRequests" in row else None, _whole(row, "depth"))
        for row in rows
    )


def _whole(holder: Mapping[str, Any], key: str) -> int:
    value = holder[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_INTEGER:
        raise ValueError(f"{key} must be a whole number of 0 or more, not {value!r}")
    return value
