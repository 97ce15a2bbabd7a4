"""A figure beside its target, as `contracts.md` wants it in every report. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import to_json

MUST, STRETCH = "must", "stretch"


def figure(
    name: str,
    value: float | None,
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    kind: str = MUST,
) -> dict[str, Any]:
    """Judge a value by its bound. One that could not be computed is a figure that is not met."""
    bound = at_least if at_least is not None else at_most
    assert bound is not None
    met = value is not None and (value >= bound if at_least is not None else value <= bound)
    target = f"{'>=' if at_least is not None else '<='} {bound:g}"
    return {"name": name, "value": value, "unit": unit, "target": target, "met": met, "kind": kind}


def missed(found: Iterable[Mapping[str, Any]], kind: str = MUST) -> list[str]:
    """Name the figures of a kind that were not met."""
    return [one["name"] for one in found if one["kind"] == kind and not one["met"]]


def written(body: Mapping[str, Any], *, indent: int | None = 1) -> str:
    """Write a report as JSON that every reader takes: a number that is none, or without end, is null."""
    return to_json(body, indent=indent, inf_nan_mode="null").decode() + "\n"
