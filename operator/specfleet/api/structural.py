"""Structural schemas: converts what pydantic writes, and checks what came out.

Pydantic's JSON schema of a realistic resource breaks dozens of rules of structural schemas. What is known is
converted; everything else is refused, so that a new kind of field is a conscious step.
Source: reference/kopf-and-kubernetes.md, sections 5.1 and 5.2.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from specfleet.api.fields import NOT_STORED

Schema = dict[str, Any]

_NESTING = frozenset({"properties", "items", "additionalProperties"})
_KEPT = frozenset({
    "type", "description", "enum", "format", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", "default",
    "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
})  # fmt: skip
_DROPPED = frozenset({"title", "$defs", "const", *NOT_STORED})


class NotStructural(ValueError):
    """A field of the models has no place in a CRD. The text says which and why."""


def structural(schema: Mapping[str, Any]) -> Schema:
    """Convert a JSON schema that pydantic wrote by alias. Raises NotStructural for what has no conversion."""
    return _convert(schema, schema.get("$defs", {}), ())


def _convert(node: Mapping[str, Any], models: Mapping[str, Schema], path: tuple[str, ...]) -> Schema:
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        if name in path:
            raise NotStructural(f"{name} contains itself at {' > '.join(path)}")
        # What stands beside the reference wins: it is about this field.
        return _convert(
            models[name] | {key: node[key] for key in node if key != "$ref"}, models, (*path, name)
        )
    if "anyOf" in node:
        return _convert(_optional(node, path), models, path)
    if unknown := set(node) - _KEPT - _DROPPED - _NESTING:
        raise NotStructural(f"{', '.join(sorted(unknown))} at {' > '.join(path)} has no conversion")
    schema: Schema = {key: value for key, value in node.items() if key in _KEPT}
    if "description" in node:
        schema["description"] = " ".join(node["description"].split())
    if "const" in node:
        schema["enum"] = [node["const"]]
    if schema.get("type") == "integer":
        schema["format"] = "int32" if schema.get("maximum", 2**31) < 2**31 else "int64"
    if "properties" in node:
        fields = node["properties"].items()
        schema["properties"] = {name: _convert(field, models, (*path, name)) for name, field in fields}
    elif isinstance(node.get("additionalProperties"), dict):
        schema["additionalProperties"] = _convert(node["additionalProperties"], models, path)
    if "items" in node:
        schema["items"] = _convert(node["items"], models, path)
    return _with_stored_default(schema, stored=not set(NOT_STORED) & set(node))


def _optional(node: Mapping[str, Any], path: tuple[str, ...]) -> Schema:
    """Optional means absent: a union with null is the other member; real unions have no structural form."""
    variants: list[Schema] = [variant for variant in node["anyOf"] if variant != {"type": "null"}]
    if len(variants) != 1:
        raise NotStructural(f"a union at {' > '.join(path)}: use optional fields and a rule")
    return variants[0] | {key: value for key, value in node.items() if key not in ("anyOf", "default")}


def _with_stored_default(schema: Schema, *, stored: bool) -> Schema:
    """Keep a default that has something to fill in; nested ones need their parent to exist."""
    default = schema.pop("default", None)
    if not stored or default in (None, "", []):
        return schema
    if schema["type"] != "object":
        return schema | {"default": default}
    nested = any("default" in child for child in schema.get("properties", {}).values())
    return schema | {"default": {}} if nested else schema


def faults(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Name every rule of structural schemas that is broken; none: an API server can take the schema."""
    yield from (f"{path}: {key} is not structural" for key in sorted(set(schema) - _KEPT - _NESTING))
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    fields, kind = schema.get("properties", {}), schema.get("type")
    if kind is None and not free:
        yield f"{path}: has no type"
    if kind == "number":
        yield f"{path}: a float has no exact text: use an integer or a quantity"
    if kind == "array" and "items" not in schema:
        yield f"{path}: an array needs items"
    if kind == "object" and not free and not {"properties", "additionalProperties"} & set(schema):
        yield f"{path}: an object without fields loses what it holds"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}: properties and additionalProperties exclude each other"
    yield from (
        f"{path}: requires {name}, which it lacks"
        for name in schema.get("required", ())
        if name not in fields
    )
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        item = schema["items"]
        if key not in item.get("required", ()) and "default" not in item["properties"].get(key, {}):
            yield f"{path}: key {key} of the list map is neither required nor defaulted"
    for name, child in fields.items():
        yield from faults(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from faults(schema[keyword], f"{path}[]")


def without(keyword: str, schema: Mapping[str, Any]) -> Schema:
    """Drop a keyword at every level of a schema; a field that has the keyword's name stays."""
    kept: Schema = {}
    for key, value in schema.items():
        if key == keyword:
            continue
        if key == "properties":
            kept[key] = {name: without(keyword, field) for name, field in value.items()}
        else:
            kept[key] = without(keyword, value) if key in ("items", "additionalProperties") else value
    return kept
