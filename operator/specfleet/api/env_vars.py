"""Environment variables of the engine container. Secrets come by reference; the operator never reads them."""

from typing import Annotated, ClassVar

from pydantic import Field

from specfleet.api.fields import DataKey, ObjectName, Written
from specfleet.api.owned import OWNED_ENV_PREFIX
from specfleet.api.rules import Rule, Rules, matching


class SecretKey(Written):
    """One key of a Secret or ConfigMap of this namespace."""

    name: ObjectName
    """Name of the object."""
    key: DataKey
    """Key in its data."""


class EnvSource(Written):
    """Where a value comes from, with exactly one source; the operator never reads it."""

    secret_key_ref: SecretKey | None = None
    """A key of a Secret."""
    config_map_key_ref: SecretKey | None = None
    """A key of a ConfigMap."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "valueFrom needs exactly one of secretKeyRef and configMapKeyRef",
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            lambda own: (own.secret_key_ref is None) != (own.config_map_key_ref is None),
        ),
    )


class EnvVar(Written):
    """One environment variable of the engine container."""

    name: Annotated[
        str,
        Field(max_length=128),
        Rules(
            matching(
                "^[A-Za-z_][A-Za-z0-9_]*$", "must be letters, digits and '_', and not start with a digit"
            ),
            Rule(
                f"names with {OWNED_ENV_PREFIX} belong to specfleet: choose another name",
                f"!self.startsWith('{OWNED_ENV_PREFIX}')",
                lambda name: not name.startswith(OWNED_ENV_PREFIX),
            ),
        ),
    ]
    """Name of the variable; unique."""
    value: Annotated[str, Field(max_length=4096)] | None = None
    """Its value. For secrets use valueFrom."""
    value_from: EnvSource | None = None
    """Where its value comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "an env entry needs exactly one of value and valueFrom",
            "has(self.value) != has(self.valueFrom)",
            lambda own: (own.value is None) != (own.value_from is None),
        ),
    )
