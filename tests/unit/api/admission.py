"""What an API server does with a resource, as far as it goes without one: defaults, schema, then rules.

Unknown fields are refused, as `kubectl` asks for. The real server runs the same table in tests/e2e.
"""

import copy
from collections.abc import Iterator
from typing import Any

import cel
import jsonschema

Schema = dict[str, Any]
Refusal = tuple[str, str]


def admit(resource: dict[str, Any], schema: Schema) -> list[Refusal]:
    """Give path and message of all that is wrong; as on a server, rules need a sound structure."""
    stored = with_defaults(resource, schema)
    return [*_unsound(stored, schema), *_duplicates(stored, schema)] or list(broken_rules(stored, schema))


def with_defaults(value: Any, schema: Schema) -> Any:
    """Fill in defaults, parents first: nested ones apply where the parent exists."""
    value = copy.deepcopy(value)
    if isinstance(value, dict):
        for name, child in schema.get("properties", {}).items():
            if name not in value and "default" in child:
                value[name] = copy.deepcopy(child["default"])
            if name in value:
                value[name] = with_defaults(value[name], child)
    elif isinstance(value, list):
        value = [with_defaults(item, schema.get("items", {})) for item in value]
    return value


def broken_rules(value: Any, schema: Schema, path: str = "") -> Iterator[Refusal]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if cel.evaluate(rule["rule"], {"self": value}) is not True:
            yield f"{path}{rule.get('fieldPath', '')}".removeprefix("."), rule["message"]
    for child_path, child, child_schema in _children(value, schema, path):
        yield from broken_rules(child, child_schema, child_path)


def rules(schema: Schema) -> Iterator[str]:
    """Give the message of every rule in a schema."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for _, child in nested(schema):
        yield from rules(child)


def nested(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Give the schemas one level below, with the name of the field or ``[]``."""
    yield from schema.get("properties", {}).items()
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield "[]", schema[keyword]


def _children(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, Any, Schema]]:
    if isinstance(value, dict):
        for name, child in value.items():
            child_schema = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if child_schema is not None:
                yield f"{path}.{name}", child, child_schema
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item, schema["items"]


def _unsound(value: Any, schema: Schema) -> list[Refusal]:
    errors = jsonschema.Draft202012Validator(_closed(schema)).iter_errors(value)
    return [(_field(error), error.message) for error in errors]


def _field(error: jsonschema.ValidationError) -> str:
    """Name the field at fault; a missing or unknown one is told by its parent."""
    path = error.json_path.removeprefix("$.")
    if error.validator in ("required", "additionalProperties"):
        return f"{path}.{error.message.split(chr(39))[1]}".removeprefix("$.")
    return path


def _duplicates(value: Any, schema: Schema, path: str = "") -> Iterator[Refusal]:
    if keys := schema.get("x-kubernetes-list-map-keys"):
        seen = [tuple(item.get(key) for key in keys) for item in value]
        if len(set(seen)) != len(seen):
            yield path.removeprefix("."), "a key more than once"
    for child_path, child, child_schema in _children(value, schema, path):
        yield from _duplicates(child, child_schema, child_path)


def _closed(schema: Schema) -> Schema:
    """Refuse what a server would prune, and keep to its types: pruning is not refusing."""
    closed = dict(schema)
    if "properties" in closed:
        closed["properties"] = {name: _closed(child) for name, child in closed["properties"].items()}
        # Of metadata a CRD may restrict the name only.
        closed["additionalProperties"] = set(closed["properties"]) == {"name"} and "description" not in closed
    for keyword in ("items", "additionalProperties"):
        if isinstance(closed.get(keyword), dict):
            closed[keyword] = _closed(closed[keyword])
    if closed.get("x-kubernetes-int-or-string"):
        closed["type"] = ["integer", "string"]
    return closed
