"""Grids of measurements: one target, draft and engine, tokens per second by load and depth.

A file has sets, a set has points, and the points of one target and engine version make a grid. Points that no
fixed depth made, or without throughput or a closed-loop load, say nothing about the cost of a step.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 1
_FIXED = ("off", "static")
_VARIANTS = ("target", "engineVersion", "method", "dataset")


class BadMeasurements(ValueError):
    """A file is not in the schema; the text says where."""


@dataclass(frozen=True, slots=True)
class Point:
    """Depth 0: an engine without a proposer. ``tokens_per_step`` has the bonus token; None: not reported."""

    load: float
    context: float | None
    depth: int
    tokens_per_second: float
    tokens_per_step: float | None

    @property
    def row(self) -> tuple[float, float]:
        return self.load, self.context or 0.0


@dataclass(frozen=True, slots=True)
class Grid:
    """Points of at least two loads or contexts, each with depth 0 and another."""

    name: str
    points: tuple[Point, ...]

    @property
    def rows(self) -> tuple[tuple[float, float], ...]:
        return tuple(sorted({point.row for point in self.points}))

    def at(self, row: tuple[float, float]) -> dict[int, Point]:
        """Give the points of a row by depth."""
        return {point.depth: point for point in self.points if point.row == row}


@dataclass(frozen=True, slots=True)
class Unused:
    """A set, or a part of it, that cannot be predicted, and why."""

    name: str
    reason: str


def grids(document: Mapping[str, Any]) -> tuple[tuple[Grid, ...], tuple[Unused, ...]]:
    """Find the grids of a file; a grid whose points another one has too is not counted twice.

    Raises BadMeasurements for a document that is not in the schema.
    """
    if document.get("schemaVersion") != SCHEMA_VERSION or not isinstance(document.get("sets"), list):
        raise BadMeasurements(f"schemaVersion {SCHEMA_VERSION} and a list of sets are needed")
    found: list[Grid] = []
    unused: list[Unused] = []
    for one in document["sets"]:
        for name, points in _parts(one).items():
            rows = _whole_rows(points)
            if not points and any("speedup" in raw for raw in one["points"]):
                unused.append(Unused(name, "a speed-up without throughput does not tell the time of a step"))
            elif len({point.row for point in rows}) < 2:
                unused.append(Unused(name, "fewer than two loads with speculation off and a fixed depth"))
            else:
                found.append(Grid(name, rows))
    kept = [grid for grid in found if not any(_holds(other, grid) for other in found)]
    unused += [Unused(grid.name, "the points of another set") for grid in found if grid not in kept]
    return tuple(kept), tuple(unused)


def _holds(other: Grid, grid: Grid) -> bool:
    def measured(one: Grid) -> set[tuple[Any, ...]]:
        return {(point.row, point.depth, point.tokens_per_second) for point in one.points}

    return measured(grid) < measured(other)


def _parts(one: Any) -> dict[str, list[Point]]:
    if not isinstance(one, Mapping):
        raise BadMeasurements(f"a set is an object with id and points, not {one!r}")
    try:
        parts: dict[str, list[Point]] = {}
        for raw in one["points"]:
            if not isinstance(raw, Mapping):
                raise TypeError(f"a point is an object, not {raw!r}")
            name = " ".join([one["id"], *(str(raw[key]) for key in _VARIANTS if key in raw)])
            points = parts.setdefault(name, [])
            if (point := _point(raw)) is not None:
                points.append(point)
    except (KeyError, TypeError, ValueError) as error:
        raise BadMeasurements(f"set {one.get('id', '?')}: {error!r}") from error
    return parts


def _point(raw: Mapping[str, Any]) -> Point | None:
    load = raw.get("batch", raw.get("concurrency"))
    if raw["mode"] not in _FIXED or raw.get("depth") is None or load is None or "throughputTokS" not in raw:
        return None
    depth, speed = int(raw["depth"]), _number(raw["throughputTokS"])
    if depth < 0 or speed == 0.0 or _number(load) == 0.0:
        raise ValueError(f"depth {depth}, load {load} and {speed} tok/s must be positive")
    context = raw.get("contextTokens")
    return Point(
        _number(load), None if context is None else _number(context), depth, speed, _accepted(raw, depth)
    )


def _number(value: Any) -> float:
    if not 0.0 <= (number := float(value)) < math.inf:
        raise ValueError(f"{value!r} must be a number of 0 or more")
    return number


def _accepted(raw: Mapping[str, Any], depth: int) -> float | None:
    if depth == 0:
        return 1.0
    if "acceptanceLength" in raw:
        return _number(raw["acceptanceLength"])
    return 1.0 + depth * _number(raw["acceptanceRate"]) if "acceptanceRate" in raw else None


def _whole_rows(points: list[Point]) -> tuple[Point, ...]:
    depths: dict[tuple[float, float], set[int]] = {}
    for point in points:
        depths.setdefault(point.row, set()).add(point.depth)
    return tuple(point for point in points if 0 in depths[point.row] and len(depths[point.row]) > 1)
