"""The OpenAPI document against the running server: schemathesis sends what it allows, and what not."""

import asyncio

import pytest
from schemathesis.generation import GenerationMode
from tests.integration.serving.exploring import explore
from tests.integration.serving.running import an_engine_process

FLAGS = ("--step-milliseconds", "0.05", "--max-model-len", "64", "--max-num-seqs", "128")
EXAMPLES = 60


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
        statuses = await asyncio.to_thread(explore, str(client.base_url), mode, EXAMPLES)

        assert expected <= statuses
        assert max(statuses) < 500
        assert process.returncode is None
        assert (await client.get("/ready")).status_code == 200
