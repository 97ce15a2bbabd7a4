"""What the HTTP side answers to good requests, with the simulated engine behind it."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.integration.serving.running import Running, a_running_engine

from specfleet_simulated.tokenizer import FIRST_WORD, VOCABULARY, SimulatedTokenizer


@pytest.fixture
async def engine() -> AsyncIterator[Running]:
    async with a_running_engine() as running:
        yield running


def greedy(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": "the same again", "temperature": 0, "max_tokens": 20} | fields


async def events_of(engine: Running, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Read a stream to its end, which must say that it is one."""
    answer = await engine.client.post(path, json=body | {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    frames = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert frames.pop() == "[DONE]"
    return [json.loads(frame) for frame in frames]


async def test_a_stream_and_a_whole_answer_have_the_same_text(engine: Running) -> None:
    whole = (await engine.client.post("/v1/completions", json=greedy())).json()
    events = await events_of(engine, "/v1/completions", greedy())

    assert "".join(event["choices"][0]["text"] for event in events) == whole["choices"][0]["text"]
    assert events[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["completion_tokens"] == 20


class WithoutAFirstSpace(SimulatedTokenizer):
    """Takes the space before a text's first word away, as SentencePiece's tokenizers do."""

    def decode(self, tokens: Sequence[int]) -> str:
        return super().decode(tokens).removeprefix(" ")


@pytest.mark.parametrize(
    ("route", "prompt", "space"),
    [
        ("completions", {"prompt": "the same again"}, " "),
        ("chat/completions", {"messages": [{"role": "user", "content": "the same again"}]}, ""),
    ],
)
async def test_a_completion_goes_on_from_its_prompt_and_a_chat_begins_anew(
    route: str, prompt: dict[str, Any], space: str
) -> None:
    async with a_running_engine(tokenizer=WithoutAFirstSpace()) as engine:
        body = {"model": "m", "max_tokens": 1, "return_token_ids": True} | prompt
        (choice,) = (await engine.client.post(f"/v1/{route}", json=body)).json()["choices"]

    word = VOCABULARY[choice["token_ids"][0] - FIRST_WORD]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    assert text == space + word


@pytest.mark.fault("vllm#7627")
async def test_greedy_text_does_not_depend_on_the_depth() -> None:
    texts = set()
    for depth in (0, 2, 5):
        async with a_running_engine(initial_depth=depth) as engine:
            answer = await engine.client.post("/v1/completions", json=greedy(max_tokens=60))
            texts.add(answer.json()["choices"][0]["text"])

    assert len(texts) == 1


async def test_usage_comes_in_a_chunk_of_its_own_when_asked_for(engine: Running) -> None:
    events = await events_of(engine, "/v1/completions", greedy(stream_options={"include_usage": True}))

    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 20
    assert {event["usage"] for event in events[:-1]} == {None}


async def test_token_ids_go_in_and_come_out(engine: Running) -> None:
    body = greedy(prompt=[104, 105, 32], return_token_ids=True)

    whole = (await engine.client.post("/v1/completions", json=body)).json()
    events = await events_of(engine, "/v1/completions", body)

    choice = whole["choices"][0]
    assert choice["prompt_token_ids"] == [104, 105, 32]
    assert len(choice["token_ids"]) == 20
    assert [token for event in events for token in event["choices"][0]["token_ids"]] == choice["token_ids"]


@pytest.mark.fault("vllm#47616")
async def test_text_tokens_and_usage_end_together_at_a_stop_string(engine: Running) -> None:
    body = greedy(max_tokens=100, stop=["."], return_token_ids=True)

    answer = (await engine.client.post("/v1/completions", json=body)).json()

    choice = answer["choices"][0]
    # The simulated model ends a sentence with its twelfth token.
    assert choice["finish_reason"] == "stop"
    assert "." not in choice["text"]
    assert len(choice["token_ids"]) == answer["usage"]["completion_tokens"] == 12


@pytest.mark.fault("sglang#33193", "sglang#12064")
async def test_metrics_count_what_users_got(engine: Running) -> None:
    events = await events_of(engine, "/v1/completions", greedy(return_token_ids=True))

    got = sum(len(event["choices"][0]["token_ids"]) for event in events)
    counters = (await engine.client.get("/v1/speculation")).json()["counters"]
    drafted, accepted = counters["draftTokens"], counters["acceptedTokens"]
    latencies = await engine.metric("vllm:inter_token_latency_seconds_count")
    assert await engine.metric("vllm:spec_decode_num_draft_tokens_total") == drafted
    assert await engine.metric("vllm:spec_decode_num_accepted_tokens_total") == accepted
    assert await engine.metric("vllm:generation_tokens_total") == got == 20
    assert latencies == len(events) - 1 == await engine.metric("specfleet_steps_total", depth="2")
    # The first token, one own token a step, the accepted drafts; the end may cut the last own token.
    assert len(events) + accepted - got in (0, 1)
    assert accepted <= drafted


async def test_each_choice_has_its_own_text_and_the_first_is_that_of_a_single_one(engine: Running) -> None:
    body = greedy(temperature=1.0, seed=5)

    alone = (await engine.client.post("/v1/completions", json=body)).json()
    several = (await engine.client.post("/v1/completions", json=body | {"n": 3})).json()
    events = await events_of(
        engine, "/v1/completions", body | {"n": 3, "stream_options": {"include_usage": True}}
    )

    texts = [choice["text"] for choice in several["choices"]]
    streamed = ["", "", ""]
    for event in events[:-1]:
        streamed[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert texts[0] == alone["choices"][0]["text"]
    assert len(set(texts)) == 3
    assert streamed == texts
    assert [choice["index"] for choice in several["choices"]] == [0, 1, 2]
    assert several["usage"] == events[-1]["usage"]
    assert several["usage"]["completion_tokens"] == 60
    assert several["usage"]["prompt_tokens"] == alone["usage"]["prompt_tokens"]


@pytest.mark.fault("vllm#6038")
async def test_a_seed_gives_the_same_text_in_a_crowd(engine: Running) -> None:
    body = greedy(temperature=0.8, seed=-3)
    crowd = [engine.client.post("/v1/completions", json=greedy(prompt=f"others {n}")) for n in range(6)]

    alone = await engine.client.post("/v1/completions", json=body)
    crowded, *_ = await asyncio.gather(engine.client.post("/v1/completions", json=body), *crowd)

    assert crowded.json()["choices"][0]["text"] == alone.json()["choices"][0]["text"]


async def test_a_stop_token_ends_an_answer_once_it_is_long_enough(engine: Running) -> None:
    # The simulated model ends each sentence of 12 tokens with a full stop, token 46.
    body = greedy(max_tokens=100, stop_token_ids=[46], return_token_ids=True)

    short = (await engine.client.post("/v1/completions", json=body)).json()["choices"][0]
    longer = (await engine.client.post("/v1/completions", json=body | {"min_tokens": 12})).json()["choices"][
        0
    ]

    assert (len(short["token_ids"]), short["finish_reason"]) == (12, "stop")
    assert (len(longer["token_ids"]), longer["finish_reason"]) == (24, "stop")
    assert "." not in longer["text"]


async def test_an_answer_tells_how_its_drafts_fared_if_the_server_was_asked_to() -> None:
    async with a_running_engine(answer_metrics="detailed") as engine:
        whole = (await engine.client.post("/v1/completions", json=greedy())).json()
        events = await events_of(engine, "/v1/completions", greedy(stream_options={"include_usage": True}))
        counters = (await engine.client.get("/v1/speculation")).json()["counters"]

    told = whole["metrics"]["speculative_decoding"]
    assert told == events[-1]["metrics"]["speculative_decoding"]
    assert (told["num_spec_tokens"], len(told["acceptance_histogram"])) == (5, 6)
    # Two answers to the same greedy request, and nothing else since the start.
    assert counters["draftTokens"] == 2 * told["num_draft_tokens"] == 2 * sum(told["per_step_drafted"])
    assert counters["acceptedTokens"] == 2 * told["num_accepted_draft_tokens"]
    assert counters["drafts"] == 2 * told["num_spec_steps"]


async def test_an_answer_tells_nothing_of_its_drafts_otherwise(engine: Running) -> None:
    assert "metrics" not in (await engine.client.post("/v1/completions", json=greedy())).json()


async def test_the_official_client_works(engine: Running) -> None:
    async with openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none") as client:
        models = [model.id async for model in await client.models.list()]
        whole = await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            max_completion_tokens=9,
            temperature=0,
            seed=1,
        )
        stream = await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            max_completion_tokens=9,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        completion = await client.completions.create(model="m", prompt="hi", max_tokens=3)

    assert models == ["m"]
    assert whole.choices[0].finish_reason == "length"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 9
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 3


async def test_a_turn_may_come_in_text_parts(engine: Running) -> None:
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    body = {"model": "m", "temperature": 0, "max_tokens": 5}

    texts = [
        (
            await engine.client.post(
                "/v1/chat/completions", json=body | {"messages": [{"role": "user", "content": content}]}
            )
        ).json()["choices"][0]["message"]["content"]
        for content in (parts, "hi")
    ]

    assert texts[0] == texts[1]


async def test_a_schedule_file_changes_the_depth_of_a_running_engine(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    async with a_running_engine(schedule_file=path) as engine:
        await engine.until("specfleet_schedule_rejected_total", 1, reason="file_gone")

        path.write_text(
            json.dumps({"format": 1, "version": 3, "fence": 2, "maxDepth": 5, "table": [{"depth": 5}]})
        )
        await engine.until("specfleet_schedule_version", 3, fence="2")
        await engine.client.post("/v1/completions", json=greedy())

        assert await engine.metric("specfleet_steps_total", depth="5") != 0
        assert await engine.metric("specfleet_steps_total", depth="2") == 0
        shown = (await engine.client.get("/v1/speculation")).json()
        assert shown["method"] == "ngram"
        assert shown["depth"] == 5
        assert (shown["schedule"]["version"], shown["schedule"]["table"]) == (3, [{"depth": 5}])
        assert shown["counters"]["drafts"] > 0
