"""What the HTTP side refuses, and how it says so."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from tests.integration.serving.running import Running, a_core, a_running_engine

from specfleet_simulated.tokenizer import SimulatedTokenizer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Running]:
    async with a_running_engine() as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")

UNSUPPORTED = [
    ("echo", True),
    ("prompt_logprobs", 0),
    ("suffix", "x"),
    ("bad_words", ["x"]),
    ("length_penalty", 0.5),
    ("use_beam_search", True),
    ("include_stop_str_in_output", True),
    ("tools", [{}]),
    ("response_format", {"type": "json_object"}),
    # The simulated engine has no distribution to change or to show.
    ("logprobs", 0),
    ("presence_penalty", 0.1),
    ("frequency_penalty", -1),
    ("repetition_penalty", 1.1),
    ("logit_bias", {"5": 1}),
]


@pytest.mark.fault("vllm#8047", "sglang#26330", "vllm#44006")
@pytest.mark.parametrize(("name", "value"), UNSUPPORTED)
async def test_a_parameter_that_is_not_supported_is_refused_by_name(
    engine: Running, name: str, value: object
) -> None:
    answer = await engine.client.post("/v1/completions", json={"model": "m", "prompt": "a", name: value})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == name


async def test_the_value_that_asks_for_nothing_is_accepted(engine: Running) -> None:
    neutral = {
        "n": 1,
        "best_of": 1,
        "logprobs": False,
        "echo": False,
        "presence_penalty": 0,
        "repetition_penalty": 1.0,
        "logit_bias": {},
        "response_format": {"type": "text"},
        "user": "someone",
    }

    answer = await engine.client.post(
        "/v1/completions", json={"model": "m", "prompt": "a", "max_tokens": 1} | neutral
    )

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("change", "param"),
    [
        pytest.param({"prompt": 5}, "prompt", id="prompt-is-a-number"),
        pytest.param({"prompt": ""}, "prompt", id="empty-prompt"),
        pytest.param({"prompt": []}, "prompt", id="no-tokens"),
        pytest.param({"prompt": [1, "a"]}, "prompt", id="mixed-tokens"),
        pytest.param({"prompt": [True]}, "prompt", id="boolean-token"),
        pytest.param({"prompt": [10**9]}, "prompt", id="token-outside-the-vocabulary"),
        pytest.param({"prompt": ["a", "b"]}, "prompt", id="two-prompts"),
        pytest.param({"temperature": "hot"}, "temperature", id="temperature-is-text"),
        pytest.param({"temperature": -0.1}, "temperature", id="negative-temperature"),
        pytest.param({"top_p": 0}, "top_p", id="top-p-0"),
        pytest.param({"max_tokens": 0}, "max_tokens", id="no-tokens-asked-for"),
        pytest.param({"max_tokens": 1.5}, "max_tokens", id="a-fraction-of-tokens"),
        pytest.param({"stop": [""]}, "stop", id="empty-stop"),
        pytest.param({"stop": ["x"] * 17}, "stop", id="too-many-stops"),
        pytest.param({"stream": "yes"}, "stream", id="stream-is-text"),
        pytest.param({"seed": 2**64}, "seed", id="seed-too-large"),
        pytest.param({"n": 0}, "n", id="no-choices"),
        pytest.param({"n": 129}, "n", id="more-choices-than-openai-allows"),
        pytest.param({"n": 100}, "n", id="more-choices-than-may-wait"),
        pytest.param({"n": 2, "best_of": 3}, "best_of", id="the-best-of-more-than-is-shown"),
        pytest.param({"best_of": "many"}, "best_of", id="best-of-is-text"),
        pytest.param({"min_p": 1.5}, "min_p", id="min-p-above-1"),
        pytest.param({"min_tokens": -1}, "min_tokens", id="negative-minimum"),
        pytest.param({"min_tokens": 9, "max_tokens": 8}, "min_tokens", id="minimum-above-maximum"),
        pytest.param({"stop_token_ids": [10**9]}, "stop_token_ids", id="stop-token-outside-the-vocabulary"),
        pytest.param({"stop_token_ids": [1] * 17}, "stop_token_ids", id="too-many-stop-tokens"),
        pytest.param({"logit_bias": {"x": 1}}, "logit_bias", id="bias-of-no-token"),
        pytest.param({"logit_bias": {"5": 101}}, "logit_bias", id="bias-too-large"),
        pytest.param({"presence_penalty": 2.1}, "presence_penalty", id="presence-penalty-too-large"),
        pytest.param({"repetition_penalty": 0}, "repetition_penalty", id="repetition-penalty-0"),
        pytest.param({"logprobs": 21}, "logprobs", id="too-many-logprobs"),
        pytest.param({"logprobs": True}, "logprobs", id="logprobs-as-in-chat"),
        pytest.param({"stream_options": {}}, "stream_options", id="stream-options-without-a-stream"),
        pytest.param({"ignore_eoss": True}, "ignore_eoss", id="unknown-parameter"),
        pytest.param({"messages": []}, "messages", id="a-parameter-of-another-route"),
    ],
)
async def test_a_wrong_value_is_refused_by_name(engine: Running, change: dict[str, Any], param: str) -> None:
    answer = await engine.client.post("/v1/completions", json={"model": "m", "prompt": "a"} | change)

    error = answer.json()["error"]
    assert answer.status_code == 400
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert param in error["message"]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="no-turns"),
        pytest.param([{"role": "user"}], id="no-content"),
        pytest.param([{"role": "robot", "content": "a"}], id="unknown-role"),
        pytest.param([{"role": "user", "content": [{"type": "image_url"}]}], id="an-image"),
        pytest.param([{"role": "user", "content": "a", "tool_calls": [1]}], id="a-tool-call"),
        pytest.param(["hi"], id="a-bare-text"),
    ],
)
async def test_a_wrong_conversation_is_refused(engine: Running, messages: list[Any]) -> None:
    answer = await engine.client.post("/v1/chat/completions", json={"model": "m", "messages": messages})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"


async def test_likeliest_tokens_without_log_probabilities_are_refused(engine: Running) -> None:
    messages = [{"role": "user", "content": "a"}]

    answer = await engine.client.post(
        "/v1/chat/completions", json={"model": "m", "messages": messages, "top_logprobs": 2}
    )

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "top_logprobs"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"model": NaN}',
        b"\xff\xfe\x00",
        b"[" * 20_000,
        b'{"model":"m","prompt":"\\ud800"}',
        b'{"model":"m","prompt":"a\xed\xa0\x80b"}',
        '{"model":"m","prompt":"a"}'.encode("utf-16"),
        '{"model":"m","prompt":"a"}'.encode("utf-32-be"),
    ],
)
async def test_a_body_that_is_no_json_object_of_text_is_refused(engine: Running, body: bytes) -> None:
    answer = await engine.client.post("/v1/completions", content=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_a_byte_order_mark_before_a_body_is_no_fault(engine: Running) -> None:
    body = b'\xef\xbb\xbf{"model":"m","prompt":"a","max_tokens":1}'

    assert (await engine.client.post("/v1/completions", content=body)).status_code == 200


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("completions", {"prompt": "\N{ZERO WIDTH SPACE}"}),
        ("chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
    ],
)
async def test_a_prompt_of_which_no_token_is_left_is_refused(
    engine: Running, monkeypatch: pytest.MonkeyPatch, route: str, body: dict[str, Any]
) -> None:
    # As a normaliser, or a chat template that ends in an empty text, does.
    monkeypatch.setattr(SimulatedTokenizer, "encode", lambda *_: [])

    answer = await engine.client.post(f"/v1/{route}", json={"model": "m"} | body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "prompt"


async def test_an_unknown_model_is_not_found_whatever_its_name(engine: Running) -> None:
    answer = await engine.client.post("/v1/completions", content=rb'{"model":"\ud83dx","prompt":"a"}')
    other = await engine.client.post("/v1/completions", json={"model": "n", "prompt": "a"})

    assert answer.status_code == 400
    assert other.status_code == 404
    assert other.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("prompt_tokens", "max_tokens", "numbers"),
    [
        pytest.param(1024, 1, ("1024", "context of 1024"), id="prompt-fills-the-context"),
        pytest.param(1000, 25, ("1000", "25", "at most 24"), id="answer-does-not-fit"),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_numbers(
    engine: Running, prompt_tokens: int, max_tokens: int, numbers: tuple[str, ...]
) -> None:
    body = {"model": "m", "prompt": [97] * prompt_tokens, "max_tokens": max_tokens}

    answer = await engine.client.post("/v1/completions", json=body)

    assert answer.status_code == 400
    assert all(number in answer.json()["error"]["message"] for number in numbers)


@pytest.mark.fault("TRT-LLM#16826")
@pytest.mark.parametrize(("route", "left"), [("completions", 7), ("chat/completions", 6)])
async def test_without_a_limit_an_answer_ends_with_the_context_at_the_latest(
    engine: Running, route: str, left: int
) -> None:
    # "user: ", "\n" and "assistant:" are 18 tokens, since a space before a word that is none is one too.
    prompt = {"prompt": [97] * 1017} if left == 7 else {"messages": [{"role": "user", "content": "a" * 1000}]}

    answer = await engine.client.post(f"/v1/{route}", json={"model": "m", "ignore_eos": True} | prompt)

    assert answer.json()["choices"][0]["finish_reason"] == "length"
    assert answer.json()["usage"]["total_tokens"] == 1024


@pytest.mark.parametrize("declared", [True, False])
async def test_a_huge_body_is_refused_whether_its_length_is_declared_or_not(
    engine: Running, declared: bool
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b" " * 1024

    content = b" " * 80 * 1024 if declared else pieces()

    answer = await engine.client.post("/v1/completions", content=content)

    assert answer.status_code == 413
    assert "65536 bytes" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/nothing", 404), ("GET", "/v1/completions", 405)]
)
async def test_a_wrong_route_is_refused_in_the_same_shape(
    engine: Running, method: str, path: str, status: int
) -> None:
    answer = await engine.client.request(method, path)

    assert answer.status_code == status
    assert path in answer.json()["error"]["message"]


async def test_a_full_queue_refuses_more_and_counts_it() -> None:
    async with a_running_engine(a_core(100, max_num_seqs=1), max_queued_requests=2) as engine:
        body = {"model": "m", "prompt": "a", "max_tokens": 5}

        def ask() -> asyncio.Future[httpx.Response]:
            return asyncio.ensure_future(engine.client.post("/v1/completions", json=body))

        served = ask()
        await engine.until("vllm:num_requests_running", 1)
        waiting = [ask(), ask()]
        await engine.until("vllm:num_requests_waiting", 2)

        answer = await engine.client.post("/v1/completions", json=body)

        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert await engine.metric("vllm:admission_rejections_total") == 1
        assert {(await one).status_code for one in (served, *waiting)} == {200}


async def test_a_draining_engine_refuses_new_work_and_is_not_ready() -> None:
    async with a_running_engine() as engine:
        engine.service.draining = True

        answer = await engine.client.post("/v1/completions", json={"model": "m", "prompt": "a"})

        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert await engine.status("/ready") == 503
        assert await engine.status("/health") == 200
