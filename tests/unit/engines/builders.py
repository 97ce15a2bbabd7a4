"""Specs of stock engines in which a test states only what matters, and their command lines as mappings."""

from typing import Any

from specfleet.api.resource import Spec
from specfleet.engines.engine import ModelPaths
from specfleet.engines.registry import ENGINES

WITH_WEIGHTS = ("draftModel", "eagle", "eagle3", "medusa")


def a_spec(engine: str = "vllm", method: str = "eagle3", **fields: Any) -> Spec:
    """``fields``: of engine, unless they are ``speculation``, ``tuning`` or ``pool``."""
    speculation = {"method": method, **fields.pop("speculation", {})}
    if method in WITH_WEIGHTS:
        speculation["proposer"] = {"uri": "pvc://heads/head"}
    return Spec.model_validate(
        {
            "model": {"uri": "pvc://weights/llama"},
            "speculation": speculation,
            "tuning": fields.pop("tuning", {}),
            "pools": [{"name": "interactive", **fields.pop("pool", {})}],
            "engine": {"type": engine, **fields},
        }
    )


def arguments(spec: Spec) -> tuple[str, ...]:
    proposer = None if spec.speculation.proposer is None else "/proposer/head"
    return tuple(
        ENGINES[spec.engine.type].arguments(
            spec,
            served_name="chat",
            paths=ModelPaths("/models/llama", proposer),
            schedule_file="/etc/specfleet/schedule/schedule.json",
        )
    )


def flags(spec: Spec) -> dict[str, str]:
    """Give each flag with its value; a flag without one has an empty value."""
    found: dict[str, str] = {}
    last = ""
    for part in arguments(spec):
        if part.startswith("--"):
            found[part] = ""
            last = part
        else:
            found[last] = part
    return found


def reasons(spec: Spec) -> list[str]:
    return [refusal.reason for refusal in ENGINES[spec.engine.type].refusals(spec)]


def messages(spec: Spec) -> str:
    return "\n".join(refusal.message for refusal in ENGINES[spec.engine.type].refusals(spec))
