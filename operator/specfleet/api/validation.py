"""The one door for resources: a dict becomes a `SpeculativeDeployment`, or a list of what is wrong.

The API server has checked the same rules already. Here it matters for files that are checked offline, and for
specs that a newer CRD let in: they must end in a condition, never in a crash. No message repeats a value,
since env values may be secrets.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from specfleet.api.resource import SpeculativeDeployment


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where (``spec.pools[0].name``), and what to write instead."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidResource(ValueError):
    """A resource that this version cannot act on. ``problems`` is everything that is wrong, at least one."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def validate(resource: Mapping[str, Any]) -> SpeculativeDeployment:
    """Read a resource as the API server gives it, or as a user wrote it. Raises InvalidResource.

    A status that cannot be read was written by another version: it counts as empty and is written anew.
    """
    try:
        return _read(resource)
    except ValidationError as error:
        details = error.errors(include_input=False, include_url=False)
    if any(detail["loc"][:1] == ("status",) for detail in details):
        return validate({key: value for key, value in resource.items() if key != "status"})
    raise InvalidResource(_problems(details))


def _read(resource: Mapping[str, Any]) -> SpeculativeDeployment:
    # Through JSON, since only there strict types and lists for tuples go together: "5" is no number.
    return SpeculativeDeployment.model_validate_json(json.dumps(resource), strict=True)


def _problems(details: Sequence[ErrorDetails]) -> list[Problem]:
    """Say each error once. A list is not too short because its items are wrong."""
    paths = [detail["loc"] for detail in details]
    return [
        Problem(_path(detail["loc"]), _message(detail))
        for detail in details
        if not (
            detail["type"] == "too_short"
            and any(other[: len(detail["loc"])] == detail["loc"] != other for other in paths)
        )
    ]


def _path(location: Sequence[int | str]) -> str:
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return written.removeprefix(".") or "the resource"


def _message(detail: ErrorDetails) -> str:
    text = _TEXTS.get(detail["type"])
    return detail["msg"] if text is None else text.format(**detail.get("ctx", {}))


# By pydantic's type of error; rules bring their own text.
_TEXTS = {
    "extra_forbidden": "unknown field: check its spelling and place, or use a specfleet that has it",
    "missing": "is required",
    "literal_error": "must be one of {expected}",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must not be empty",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be a string: put it in quotes",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
    "model_type": "must be a mapping of fields to values",
    "model_attributes_type": "must be a mapping of fields to values",
}
