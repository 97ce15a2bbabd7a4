"""Rules that are said twice: in CEL for the API server, and in Python for what reads a resource later.

Both halves stand side by side here, so that they cannot drift apart unseen; one table of cases is run against
both. The generator (`specfleet.api.crd`) writes the CEL half, pydantic runs the Python half.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``cel`` sees the value that carries the rule as ``self``, ``holds`` gets it as an argument.

    ``field`` is the broken field below that value, in the resource's spelling and with dots; empty: itself.
    ``message`` names the field and the cure. CEL here is standard CEL only: it runs without a cluster.
    """

    message: str
    cel: str
    holds: Callable[[Any], bool]
    field: str = ""

    def as_validation(self) -> dict[str, str]:
        """Write the rule as an entry of ``x-kubernetes-validations``."""
        entry = {"rule": self.cel, "message": self.message}
        return entry | {"fieldPath": f".{self.field}"} if self.field else entry


def matching(pattern: str, message: str) -> Rule:
    """Give the rule that a string matches a pattern: like ``pattern``, but with a message that helps.

    The pattern is anchored, and is both RE2 and Python: no look-around, and ``[.]`` instead of a backslash.
    """
    compiled = re.compile(pattern)
    return Rule(message, f"self.matches('{pattern}')", lambda text: compiled.fullmatch(text) is not None)


def check(value: Any, rules: Iterable[Rule]) -> None:
    """Raise one ValidationError with every broken rule."""
    broken = [
        InitErrorDetails(
            type=PydanticCustomError("rule", rule.message),
            loc=tuple(rule.field.split(".")) if rule.field else (),
            input=None,
        )
        for rule in rules
        if not rule.holds(value)
    ]
    if broken:
        raise ValidationError.from_exception_data("rules", broken)


class Rules:
    """Attaches rules to a single field: ``Annotated[str, Rules(...)]``."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def keep(value: Any) -> Any:
            check(value, self._rules)
            return value

        return core_schema.no_info_after_validator_function(keep, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        written = handler(schema)
        written[VALIDATIONS] = [
            *written.get(VALIDATIONS, ()),
            *(rule.as_validation() for rule in self._rules),
        ]
        return written


class ListMap:
    """Makes a list a map of items by key: unique, and merged item by item in a server-side apply."""

    def __init__(self, *keys: str) -> None:
        self._keys = keys

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def keep(items: tuple[Any, ...]) -> tuple[Any, ...]:
            seen = set[tuple[Any, ...]]()
            for item in items:
                written = item.model_dump(by_alias=True)
                key = tuple(written.get(name) for name in self._keys)
                if key in seen:
                    shown = ", ".join(f"{name} {part!r}" for name, part in zip(self._keys, key, strict=True))
                    raise PydanticCustomError("duplicate", f"has {shown} more than once: keep one")
                seen.add(key)
            return items

        return core_schema.no_info_after_validator_function(keep, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) | {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(self._keys),
        }
