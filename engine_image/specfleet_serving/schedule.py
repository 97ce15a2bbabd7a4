"""The schedule as an engine reads it: what a file must say, when it may replace the table in force, which
depth a load gets.

Pure: text and numbers in, values or `Refused` out. `follower` brings the file's text here; `loop` asks for
the depth. Source: design/contracts.md, "Schedule file"; design/tuning.md, section 9.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FORMAT = 1
# Above this a float cannot hold every integer, and metrics are floats.
LARGEST_INTEGER = 2**53
# Steps that a load must stay inside the 10 % band of a border before its own row is taken.
STEPS_INSIDE_BAND = 16


class Reason(StrEnum):
    """Why a file was refused: the label of ``specfleet_schedule_rejected_total``."""

    FILE_GONE = "file_gone"
    UNREADABLE = "unreadable"
    NOT_JSON = "not_json"
    UNKNOWN_FORMAT = "unknown_format"
    WRONG_TYPE = "wrong_type"
    UNSORTED = "unsorted"
    DEPTH_OUT_OF_RANGE = "depth_out_of_range"
    OLD_VERSION = "old_version"
    LOWER_FENCE = "lower_fence"


class Refused(ValueError):
    """A file that must not be followed. The last good table stays in force."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Row:
    """``depth`` for decoding requests up to and including ``max_requests``; None: no upper end."""

    max_requests: int | None
    depth: int


@dataclass(frozen=True, slots=True)
class Document:
    """One schedule: the table and who issued it."""

    version: int
    fence: int
    max_depth: int
    table: tuple[Row, ...]
    issued_at: str | None = None


def flat(depth: int, max_depth: int) -> Document:
    """Give the schedule of an engine that has seen no file: one depth for every load, version 0."""
    return Document(version=0, fence=0, max_depth=max_depth, table=(Row(None, depth),))


def parse(text: str, engine_max_depth: int) -> Document:
    """Read the text of a ``schedule.json``. Raises Refused with the reason.

    ``engine_max_depth`` is the depth the engine was started with; no row may pass it.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(Reason.NOT_JSON, f"the file is not JSON: {type(error).__name__}") from error
    if not isinstance(body, dict):
        raise Refused(Reason.WRONG_TYPE, f"the file must hold an object, not {type(body).__name__}")
    if body.get("format") != FORMAT or isinstance(body.get("format"), bool):
        raise Refused(Reason.UNKNOWN_FORMAT, f"this engine reads format {FORMAT}, the file has another")
    issued_at = body.get("issuedAt")
    if issued_at is not None and not isinstance(issued_at, str):
        raise Refused(Reason.WRONG_TYPE, "issuedAt must be a string")
    document = Document(
        version=_integer(body, "version"),
        fence=_integer(body, "fence"),
        max_depth=_integer(body, "maxDepth"),
        table=_rows(body.get("table")),
        issued_at=issued_at,
    )
    _check_order(document.table)
    _check_depths(document, engine_max_depth)
    return document


def check_succession(candidate: Document, current: Document) -> None:
    """Raise Refused unless ``candidate`` may replace ``current``: a higher fence, or a higher version."""
    if candidate.fence < current.fence:
        raise Refused(
            Reason.LOWER_FENCE, f"fence {candidate.fence} is below {current.fence}, which is in force"
        )
    if candidate.fence == current.fence and candidate.version <= current.version:
        raise Refused(
            Reason.OLD_VERSION,
            f"version {candidate.version} is not above {current.version}, which is in force",
        )


def _integer(body: dict[str, Any], key: str) -> int:
    value = body.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_INTEGER:
        raise Refused(Reason.WRONG_TYPE, f"{key} must be a whole number of 0 or more")
    return value


def _rows(table: object) -> tuple[Row, ...]:
    if not isinstance(table, list) or not table or not all(isinstance(row, dict) for row in table):
        raise Refused(Reason.WRONG_TYPE, "table must be a list of at least one row")
    for row in table:
        if unknown := sorted(row.keys() - {"maxRequests", "depth"}):
            raise Refused(Reason.WRONG_TYPE, f"a row has maxRequests and depth, not {unknown[0]!r}")
    return tuple(
        Row(_integer(row, "maxRequests") if "maxRequests" in row else None, _integer(row, "depth"))
        for row in table
    )


def _check_order(table: tuple[Row, ...]) -> None:
    below = 0
    for row in table[:-1]:
        if row.max_requests is None:
            raise Refused(Reason.UNSORTED, "only the last row may leave out maxRequests")
        if row.max_requests <= below:
            raise Refused(Reason.UNSORTED, f"maxRequests {row.max_requests} must be above {below}")
        below = row.max_requests
    if table[-1].max_requests is not None:
        raise Refused(Reason.UNSORTED, "the last row must leave out maxRequests")


def _check_depths(document: Document, engine_max_depth: int) -> None:
    ceiling = min(document.max_depth, engine_max_depth)
    deepest = max(row.depth for row in document.table)
    if deepest > ceiling:
        raise Refused(
            Reason.DEPTH_OUT_OF_RANGE,
            f"depth {deepest} is above {ceiling} (maxDepth {document.max_depth}, engine {engine_max_depth})",
        )


class DepthChooser:
    """Looks the depth up for each step, with 10 % of hysteresis at the borders of rows.

    Outside the band of 10 % around a border the load's own row is taken at once. Inside it the row in use
    stays, unless the load asks for the other row for `STEPS_INSIDE_BAND` steps on end: a load that dances
    over a border does not flip the depth on every step, and one that comes to rest on it still gets what the
    table says.
    """

    def __init__(self, table: tuple[Row, ...]) -> None:
        self._table = table
        self._row: int | None = None
        self._asked = 0

    @property
    def depth(self) -> int:
        """The depth of the row in use."""
        return self._table[self._row or 0].depth

    def choose(self, decoding: int) -> int:
        """Give the depth for a step with this number of decoding requests."""
        wanted = self._lookup(decoding)
        if self._row is None or wanted == self._row:
            self._row, self._asked = wanted, 0
        elif self._is_inside_band(decoding, wanted) and self._asked < STEPS_INSIDE_BAND:
            self._asked += 1
        else:
            self._row, self._asked = wanted, 0
        return self.depth

    def _lookup(self, decoding: int) -> int:
        for index, row in enumerate(self._table):
            if row.max_requests is None or decoding <= row.max_requests:
                return index
        raise ValueError("a table must end with an open row")

    def _is_inside_band(self, decoding: int, wanted: int) -> bool:
        # The border next to the wanted row, on the side of the row in use.
        assert self._row is not None
        border = self._table[wanted if wanted < self._row else wanted - 1].max_requests
        assert border is not None
        return abs(decoding - border) * 10 <= border
