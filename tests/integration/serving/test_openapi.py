"""The OpenAPI document against the running server: schemathesis sends what it allows, and what not."""

import asyncio
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.integration.serving.running import an_engine_process

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
FLAGS = ("--step-milliseconds", "0.05", "--max-model-len", "64", "--max-num-seqs", "128")
EXAMPLES = 60


def explore(url: str, mode: GenerationMode) -> set[int]:
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
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        explorer(given(strategy)(sent))()
    return statuses


@pytest.mark.fault("vllm#18783")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(GenerationMode.POSITIVE, {200, 400}, id="allowed"),
        pytest.param(GenerationMode.NEGATIVE, {400}, id="not-allowed"),
    ],
)
async def test_no_request_makes_the_server_fail(mode: GenerationMode, expected: set[int]) -> None:
    async with an_engine_process(*FLAGS) as (process, client):
        statuses = await asyncio.to_thread(explore, str(client.base_url), mode)

        assert expected <= statuses
        assert max(statuses) < 500
        assert process.returncode is None
        assert (await client.get("/ready")).status_code == 200
