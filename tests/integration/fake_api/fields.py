"""Objects as flat field sets, so that field ownership is plain set arithmetic.

A path is a tuple of steps; an item of a list-map is one `Item` step. Scalars, atomic lists and empty
containers are leaves.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

Path = tuple[Any, ...]

# Only what the objects of these tests use. Anything else is an atomic list, as in Kubernetes' own default.
LIST_MAPS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "ownerReferences": ("uid",),
    "pools": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
}


class Item(NamedTuple):
    """One element of a list-map, by its key values."""

    key: tuple[Any, ...]


def flatten(value: Any, path: Path = ()) -> dict[Path, Any]:
    if isinstance(value, Mapping) and value:
        return {
            leaf: found
            for key, child in value.items()
            for leaf, found in flatten(child, (*path, key)).items()
        }
    if isinstance(value, list) and value and (keys := _keys(path, value)):
        return {
            leaf: found
            for child in value
            for leaf, found in flatten(child, (*path, Item(tuple(child.get(key) for key in keys)))).items()
        }
    return {path: value}


def unflatten(fields: Mapping[Path, Any]) -> Any:
    if () in fields:
        return fields[()]
    groups: dict[Any, dict[Path, Any]] = {}
    for path, value in fields.items():
        groups.setdefault(path[0], {})[path[1:]] = value
    if groups and all(isinstance(step, Item) for step in groups):
        return [unflatten(group) for group in groups.values()]
    return {step: unflatten(group) for step, group in groups.items()}


def _keys(path: Path, value: list[Any]) -> tuple[str, ...]:
    if not path or not all(isinstance(child, Mapping) for child in value):
        return ()
    if path[-1] == "ports":
        return ("containerPort", "protocol") if "containerPort" in value[0] else ("port", "protocol")
    return LIST_MAPS.get(path[-1], ())
