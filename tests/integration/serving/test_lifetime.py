"""Clients that go away, steps that fail or hang, and the end of the process."""

import asyncio
import json
import signal
import threading
from collections.abc import Callable

import httpx
import pytest
from tests.integration.serving.running import (
    PATIENCE_SECONDS,
    a_core,
    a_running_engine,
    an_engine_process,
    free_port,
    metric_in,
    until,
)

from specfleet_serving import loop
from specfleet_serving.arguments import Settings
from specfleet_serving.core import Step
from specfleet_serving.process import http_config, serve
from specfleet_simulated.core import SimulatedCore
from specfleet_simulated.tokenizer import SimulatedTokenizer

LONG = {"model": "m", "prompt": "a", "max_tokens": 900, "ignore_eos": True}


@pytest.mark.fault("vllm#18485")
async def test_a_client_that_leaves_its_stream_frees_what_it_held() -> None:
    async with a_running_engine(a_core(5)) as engine:
        async with engine.client.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as answer:
            await anext(answer.aiter_bytes())
            assert await engine.metric("vllm:kv_cache_usage_perc") != 0

        await engine.until("vllm:request_success_total", 1, finished_reason="abort")

        assert await engine.metric("vllm:kv_cache_usage_perc") == 0
        assert await engine.metric("vllm:num_requests_running") == 0


async def test_a_client_that_does_not_wait_for_its_whole_answer_frees_what_it_held() -> None:
    async with a_running_engine(a_core(5)) as engine:
        asking = asyncio.ensure_future(engine.client.post("/v1/completions", json=LONG))
        await engine.until("vllm:num_requests_running", 1)

        asking.cancel()

        await engine.until("vllm:request_success_total", 1, finished_reason="abort")
        assert engine.service.streams.count == 0


@pytest.mark.fault("vllm#18485")
async def test_a_client_that_leaves_an_answer_of_several_choices_frees_all_of_them() -> None:
    async with a_running_engine(a_core(5)) as engine:
        asking = asyncio.ensure_future(engine.client.post("/v1/completions", json=LONG | {"n": 3}))
        await engine.until("vllm:num_requests_running", 3)

        asking.cancel()

        await engine.until("vllm:request_success_total", 3, finished_reason="abort")
        assert engine.service.streams.count == 0
        assert await engine.metric("vllm:kv_cache_usage_perc") == 0


@pytest.mark.fault("vllm#18485")
async def test_a_client_that_leaves_the_queue_is_forgotten() -> None:
    async with a_running_engine(a_core(5, max_num_seqs=1)) as engine:
        first = asyncio.ensure_future(engine.client.post("/v1/completions", json=LONG))
        await engine.until("vllm:num_requests_running", 1)
        second = asyncio.ensure_future(engine.client.post("/v1/completions", json=LONG))
        await engine.until("vllm:num_requests_waiting", 1)

        second.cancel()

        await engine.until("vllm:num_requests_waiting", 0)
        assert engine.service.loop.queued == 0
        first.cancel()


class FaultyCore(SimulatedCore):
    """A simulated core whose next step can be replaced, or every one be broken."""

    instead: Callable[[], None] | None = None
    broken = False

    def step(self, depth: int) -> Step | None:
        if self.broken:
            explode()
        if self.instead and self.load().running:
            instead, self.instead = self.instead, None
            instead()
        return super().step(depth)


def a_faulty_core() -> FaultyCore:
    core = a_core(5)
    core.__class__ = FaultyCore
    assert isinstance(core, FaultyCore)
    return core


def explode() -> None:
    raise RuntimeError("a kernel failed")


@pytest.mark.fault("vllm#18783")
async def test_a_failed_step_is_a_500_and_the_next_request_is_served() -> None:
    core = a_faulty_core()
    async with a_running_engine(core) as engine:
        core.instead = explode

        failed = await engine.client.post("/v1/completions", json=LONG)
        served = await engine.client.post("/v1/completions", json=LONG | {"max_tokens": 2})

        assert failed.status_code == 500
        assert failed.json()["error"]["code"] == "engine_error"
        assert served.status_code == 200
        assert await engine.metric("vllm:request_success_total", finished_reason="error") == 1


@pytest.mark.fault("vllm#18783")
async def test_a_core_of_which_every_step_fails_is_not_ready_and_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "CHECK_SECONDS", 2.0)  # twice that is time to see it before it ends
    core = a_faulty_core()
    port = free_port()
    settings = Settings("m", host="127.0.0.1", port=port)
    process = asyncio.ensure_future(asyncio.to_thread(serve, core, SimulatedTokenizer(), settings))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
        await until(lambda: answers(client, "/ready", 200))
        core.broken = True

        failed = await client.post("/v1/completions", json=LONG)
        await until(lambda: answers(client, "/ready", 503))
        refused = await client.post("/v1/completions", json=LONG)

    assert failed.status_code == 500
    assert refused.status_code == 503
    assert "retry-after" in refused.headers
    assert await asyncio.wait_for(process, PATIENCE_SECONDS) == 1


async def answers(client: httpx.AsyncClient, path: str, status: int) -> bool:
    try:
        return (await client.get(path)).status_code == status
    except httpx.TransportError:
        return False


async def test_a_stream_that_fails_under_way_ends_with_an_error() -> None:
    core = a_faulty_core()
    async with a_running_engine(core) as engine:
        async with engine.client.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            core.instead = explode
            rest = [line.removeprefix("data: ") async for line in lines if line]

        assert rest.pop() == "[DONE]"
        assert json.loads(rest[-1])["error"]["code"] == "engine_error"


async def test_a_step_that_hangs_fails_the_liveness_probe() -> None:
    core = a_faulty_core()
    leave = threading.Event()
    async with a_running_engine(core, stall_seconds=0.05) as engine:
        assert await engine.status("/health") == 200
        core.instead = lambda: wait_for(leave)
        asking = asyncio.ensure_future(engine.client.post("/v1/completions", json=LONG | {"max_tokens": 2}))

        async def is_sick() -> bool:
            return await engine.status("/health") == 503

        await until(is_sick)

        assert await engine.status("/ready") == 503
        leave.set()
        assert (await asking).status_code == 200


def wait_for(event: threading.Event) -> None:
    assert event.wait(PATIENCE_SECONDS)


@pytest.mark.fault("vllm#24885")
async def test_sigterm_lets_streams_finish_refuses_new_work_and_exits_with_0() -> None:
    async with an_engine_process("--step-milliseconds", "10") as (process, client):
        # Four seconds: the signal and the looks at what it does have to come while it is served.
        asking = asyncio.ensure_future(client.post("/v1/completions", json=LONG | {"max_tokens": 400}))
        await until(lambda: is_running(client))

        process.send_signal(signal.SIGTERM)
        await until(lambda: is_draining(client))
        refused = await client.post("/v1/completions", json=LONG)
        answer = await asking

        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        assert answer.json()["usage"]["completion_tokens"] == 400
        assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 0


async def test_a_stream_that_outlives_the_drain_ends_with_an_error_and_does_not_hang() -> None:
    flags = ("--step-milliseconds", "100", "--drain-seconds", "0.3")
    async with an_engine_process(*flags) as (process, client):
        async with client.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            process.send_signal(signal.SIGTERM)
            rest = [line.removeprefix("data: ") async for line in lines if line]

        assert json.loads(rest[-2])["error"]["code"] == "engine_error"
        assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 0


async def test_the_smallest_context_that_a_resource_may_ask_for_is_served() -> None:
    async with an_engine_process("--max-model-len", "16", "--kv-cache-tokens", "16") as (_, client):
        answer = await client.post("/v1/completions", json=LONG | {"prompt": "abcdefgh", "max_tokens": 8})

    assert answer.json()["usage"]["total_tokens"] == 16


async def is_running(client: httpx.AsyncClient) -> bool:
    return metric_in((await client.get("/metrics")).text, "vllm:num_requests_running") == 1


async def is_draining(client: httpx.AsyncClient) -> bool:
    return (await client.get("/ready")).status_code == 503


async def test_the_engine_is_not_the_side_that_closes_an_idle_connection() -> None:
    """A load balancer keeps one for 60 s; whoever closes first breaks a request that is under way."""
    async with a_running_engine() as engine:
        assert http_config(engine.service).timeout_keep_alive > 60
