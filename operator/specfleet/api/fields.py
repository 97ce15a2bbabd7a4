"""The base models of the resources and the types of their single fields.

Descriptions are the docstrings below the fields; they become the text of ``kubectl explain``. Every string,
list and map has an upper bound, since the API server estimates the cost of a CEL rule from them.
"""

import re
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from specfleet.api.duration import PATTERN as DURATION
from specfleet.api.rules import VALIDATIONS, Rule, Rules, check, matching

MAX_DEPTH = 16


class _Ruled(BaseModel):
    """A model whose ``rules`` are checked after its fields, and are written into the CRD."""

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _keep_rules(self) -> Self:
        check(self, self.rules)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        written = handler(schema)
        if cls.rules:
            handler.resolve_ref_schema(written)[VALIDATIONS] = [rule.as_validation() for rule in cls.rules]
        return written


class Written(_Ruled):
    """Base of what users write: frozen, camelCase outside, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class Reported(_Ruled):
    """Base of what specfleet reports: frozen, camelCase outside, unknown fields ignored."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


# The default is known to the operator only, and is not stored in objects: so that a rule can tell "left out".
NOT_STORED: dict[str, Any] = {"x-specfleet-not-stored": True}

Depth = Annotated[int, Field(ge=0, le=MAX_DEPTH)]
Percent = Annotated[int, Field(ge=0, le=100)]

GoDuration = Annotated[
    str,
    Field(max_length=32),
    Rules(
        matching(DURATION, "must be a Go duration with units us, ms, s or m, such as 40ms or 1.5s"),
        Rule(
            "must be longer than zero: leave the field out for no limit",
            "self.matches('[1-9]')",
            lambda text: re.search("[1-9]", text) is not None,
        ),
    ),
]

DnsLabel = Annotated[
    str,
    Field(max_length=63),
    Rules(
        matching(
            "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            "must be lower-case letters, digits and '-', with a letter or digit at both ends",
        )
    ),
]

ObjectName = Annotated[
    str,
    Field(max_length=253),
    Rules(
        matching(
            "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
            "must be the name of an object in this namespace: lower-case letters, digits, '-' and '.'",
        )
    ),
]

OptionalObjectName = Annotated[
    str,
    Field(max_length=253),
    Rules(
        matching(
            "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
            "must be empty or the name of an object: lower-case letters, digits, '-' and '.'",
        )
    ),
]

DataKey = Annotated[
    str,
    Field(max_length=253),
    Rules(
        matching("^[-._a-zA-Z0-9]+$", "must be a key of the object's data: letters, digits, '-', '_' and '.'")
    ),
]

LabelKey = Annotated[
    str,
    Field(max_length=317),
    Rules(
        matching(
            "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
            "must be a label key such as nvidia.com/gpu",
        )
    ),
]

LabelValue = Annotated[str, Field(max_length=63, pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]

QUANTITY = "^[0-9]+([.][0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"


def _number_as_text(value: Any) -> Any:
    # Kubernetes takes "1" and 1 alike; true is an int in Python only.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    Field(pattern=QUANTITY, max_length=32),
    BeforeValidator(_number_as_text),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": QUANTITY, "maxLength": 32}),
]

# What no rule may touch, and nothing is known about: the API server keeps it as it is.
FreeForm = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
