"""Send what an engine's OpenAPI document allows, or what it does not, and hold the answers to it."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def explore(url: str, mode: GenerationMode, examples: int) -> set[int]:
    """Send generated requests to every operation; give the statuses that came back."""
    statuses: set[int] = set()

    def sent(case: Any) -> None:
        if isinstance(case.body, dict) and "model" in case.body:
            # Otherwise nothing but 404 would ever be seen.
            case.body["model"] = "m"
        response = case.call(base_url=url)
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and operation.method != "post":
            continue  # without parameters there is nothing to get wrong
        strategy = operation.as_strategy(generation_mode=mode)
        explorer = settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        explorer(given(strategy)(sent))()
    return statuses
