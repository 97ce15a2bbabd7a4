"""The built-in engine behind its HTTP side: what a request changes, and what it is told."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
import torch
from schemathesis.generation import GenerationMode
from tests.integration.engine.checkpoints import VOCABULARY
from tests.integration.engine.driving import a_core, a_drafting_core
from tests.integration.serving.exploring import explore
from tests.integration.serving.running import Running, a_running_engine
from transformers import AutoModelForCausalLM

from specfleet_engine.load import load_model, load_tokenizer
from specfleet_engine.tokenizer import EngineTokenizer

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT = [5, 9, 5, 9, 5]
EOS = 1


@pytest.fixture(scope="module")
def tokenizer(llama: Path) -> EngineTokenizer:
    return load_tokenizer(llama, load_model(llama, torch.float32))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(llama: Path, tokenizer: EngineTokenizer) -> AsyncIterator[Running]:
    async with a_running_engine(a_core(llama), initial_depth=3, tokenizer=tokenizer) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drafting(
    llama: Path, tokenizer: EngineTokenizer, proposers: dict[str, tuple[str, Path | None]]
) -> AsyncIterator[Running]:
    """With a draft model, whose guesses are right now and then."""
    core = a_drafting_core(llama, *proposers["blurred"])
    async with a_running_engine(core, initial_depth=3, tokenizer=tokenizer) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(engine: Running) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none") as client:
        yield client


def greedy(**fields: Any) -> dict[str, Any]:
    body = {"model": "m", "prompt": PROMPT, "temperature": 0, "max_tokens": 24, "return_token_ids": True}
    return body | fields


async def complete(engine: Running, **fields: Any) -> dict[str, Any]:
    answer = await engine.client.post("/v1/completions", json=greedy(**fields))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def choice_of(engine: Running, **fields: Any) -> dict[str, Any]:
    choice: dict[str, Any] = (await complete(engine, **fields))["choices"][0]
    return choice


def reference_logprobs(llama: Path, tokens: list[int]) -> torch.Tensor:
    """What transformers says of each token of an answer, from one pass over all of it."""
    model = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.tensor([[*PROMPT, *tokens]])).logits[0]
    return logits[len(PROMPT) - 1 : -1].log_softmax(dim=-1)


@pytest.mark.fault("vllm#30846")
async def test_log_probabilities_are_those_of_transformers(engine: Running, llama: Path) -> None:
    choice = await choice_of(engine, logprobs=3, repetition_penalty=1.2, logit_bias={"7": 2})

    tokens = choice["token_ids"]
    expected = reference_logprobs(llama, tokens)
    own = expected.gather(1, torch.tensor(tokens)[:, None])[:, 0]
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(own.tolist(), abs=1e-4)
    likeliest = [sorted(top.values())[-3:] for top in choice["logprobs"]["top_logprobs"]]
    assert [value for line in likeliest for value in line] == pytest.approx(
        expected.topk(3).values.flip(1).flatten().tolist(), abs=1e-4
    )


@pytest.mark.fault("vllm#47616")
async def test_token_ids_logprobs_and_usage_end_together(engine: Running) -> None:
    free = await choice_of(engine)
    stop = free["token_ids"][9]

    answer = await complete(engine, stop_token_ids=[stop], logprobs=0)

    choice = answer["choices"][0]
    count = free["token_ids"].index(stop) + 1
    assert choice["token_ids"] == free["token_ids"][:count]
    assert len(choice["logprobs"]["tokens"]) == answer["usage"]["completion_tokens"] == count
    assert choice["finish_reason"] == "stop"


async def test_a_bias_forces_and_bans_tokens(engine: Running) -> None:
    free = (await choice_of(engine))["token_ids"]

    forced = (await choice_of(engine, logit_bias={"40": 100}))["token_ids"]
    banned = (await choice_of(engine, logit_bias={str(token): -100 for token in set(free)}))["token_ids"]

    assert set(forced) == {40}
    assert not set(banned) & set(free)


async def test_a_model_that_wants_to_end_goes_on_to_the_smallest_length(engine: Running) -> None:
    wants_to_end = {"logit_bias": {str(EOS): 100}}

    at_once = await choice_of(engine, **wants_to_end)
    later = await choice_of(engine, **wants_to_end, min_tokens=7)
    never = await choice_of(engine, **wants_to_end, ignore_eos=True)

    assert (at_once["token_ids"], at_once["text"]) == ([EOS], "")
    assert later["token_ids"].index(EOS) == len(later["token_ids"]) - 1 == 7
    assert (never["token_ids"], never["finish_reason"]) == ([EOS] * 24, "length")


@pytest.mark.fault("vllm#18902", "sglang#33643")
@pytest.mark.parametrize(
    "settings",
    [
        {"frequency_penalty": 1.5},
        {"presence_penalty": 2.0},
        {"repetition_penalty": 1.3, "frequency_penalty": 0.4},
    ],
)
async def test_a_penalised_greedy_text_is_the_same_at_every_depth(
    llama: Path, tokenizer: EngineTokenizer, engine: Running, settings: dict[str, float]
) -> None:
    async with a_running_engine(a_core(llama), initial_depth=0, tokenizer=tokenizer) as undrafted:
        plain = await choice_of(undrafted, max_tokens=40, **settings)

    drafted = await choice_of(engine, max_tokens=40, **settings)

    assert drafted["token_ids"] == plain["token_ids"]
    assert drafted["token_ids"] != (await choice_of(engine, max_tokens=40))["token_ids"]


def kept_by(law: torch.Tensor, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> set[int]:
    """The tokens that are left of a law, sorted and counted by hand."""
    kept, passed = set(), 0.0
    for rank, token in enumerate(law.argsort(descending=True).tolist()):
        if passed >= top_p or (top_k and rank >= top_k) or law[token] < min_p * law.max():
            break
        kept.add(token)
        passed += float(law[token])
    return kept


@pytest.mark.fault("vllm#10198", "sglang#31214")
@pytest.mark.parametrize("settings", [{"top_k": 3}, {"top_p": 0.3}, {"min_p": 0.4}])
async def test_a_sampled_text_keeps_to_the_tokens_that_its_request_leaves(
    drafting: Running, llama: Path, settings: dict[str, Any]
) -> None:
    drafted = await drafting.metric("vllm:spec_decode_num_draft_tokens_total") or 0.0

    async def outside(**asked: Any) -> int:
        tokens = (await choice_of(drafting, temperature=1.5, seed=3, max_tokens=100, **asked))["token_ids"]
        laws = (reference_logprobs(llama, tokens) / 1.5).softmax(dim=-1)
        return sum(token not in kept_by(law, **settings) for token, law in zip(tokens, laws, strict=True))

    assert await outside(**settings) == 0
    assert await outside() > 10
    assert await drafting.metric("vllm:spec_decode_num_draft_tokens_total") > drafted + 100


async def test_a_stop_string_ends_text_tokens_and_usage_where_it_is_complete(
    drafting: Running, tokenizer: EngineTokenizer
) -> None:
    free = await choice_of(drafting, max_tokens=60)
    text = free["text"]
    stop = text[20:23]
    assert stop.strip()

    answer = await complete(drafting, max_tokens=60, stop=["never said", stop])

    choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (text[: text.index(stop)], "stop")
    count = answer["usage"]["completion_tokens"]
    assert choice["token_ids"] == free["token_ids"][:count]
    assert stop in tokenizer.decode(free["token_ids"][:count])
    assert stop not in tokenizer.decode(free["token_ids"][: count - 1])


@pytest.mark.fault("vllm#18485")
async def test_a_client_that_leaves_frees_its_blocks_while_others_go_on(
    llama: Path, tokenizer: EngineTokenizer, proposers: dict[str, tuple[str, Path | None]]
) -> None:
    core = a_drafting_core(llama, *proposers["draft-model"])
    body = greedy(max_tokens=480, ignore_eos=True, stream=True)
    async with a_running_engine(core, initial_depth=3, tokenizer=tokenizer) as engine:
        async with engine.client.stream("POST", "/v1/completions", json=body) as staying:
            pieces = staying.aiter_bytes()
            await anext(pieces)
            async with engine.client.stream("POST", "/v1/completions", json=body) as leaving:
                others = leaving.aiter_bytes()
                await anext(others)
                assert len(core._scheduler.running) == 2
            await engine.until("vllm:request_success_total", 1, finished_reason="abort")

            held = core._scheduler.pool.total - core._scheduler.pool.free
            (other,) = core._scheduler.running
            # The engine goes on meanwhile, so that the other one may have more by now.
            assert 0 < held <= len(other.blocks)
        await engine.until("vllm:request_success_total", 2, finished_reason="abort")

        assert await engine.metric("vllm:kv_cache_usage_perc") == 0
        assert core._scheduler.pool.free == core._scheduler.pool.total


@pytest.mark.fault("vllm#18783")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(GenerationMode.POSITIVE, {200, 400}, id="allowed"),
        pytest.param(GenerationMode.NEGATIVE, {400}, id="not-allowed"),
    ],
)
async def test_no_request_makes_the_engine_fail(
    llama: Path, tokenizer: EngineTokenizer, mode: GenerationMode, expected: set[int]
) -> None:
    core = a_core(llama, max_model_len=64)
    async with a_running_engine(core, initial_depth=3, tokenizer=tokenizer) as engine:
        statuses = await asyncio.to_thread(explore, engine.url, mode, 20)

        assert expected <= statuses
        assert max(statuses) < 500
        assert await engine.status("/ready") == 200
        assert core.load().kv_usage == 0


async def test_the_official_client_streams_a_chat(drafting: Running) -> None:
    arguments: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "The quick brown fox"}],
        "temperature": 0,
        "max_completion_tokens": 30,
    }
    async with openai.AsyncOpenAI(base_url=f"{drafting.url}/v1", api_key="none") as client:
        whole = await client.chat.completions.create(**arguments)
        stream = await client.chat.completions.create(
            **arguments, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]

    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert len([piece for piece in pieces if piece]) > 1
    assert "".join(pieces) == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 30


async def test_the_official_client_reads_the_log_probabilities_of_a_chat(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "Grüße"}],
        temperature=0,
        max_tokens=30,
        logprobs=True,
        top_logprobs=2,
        n=2,
    )

    for choice in answer.choices:
        assert choice.logprobs is not None
        assert choice.logprobs.content is not None
        content = bytes(byte for entry in choice.logprobs.content for byte in entry.bytes or [])
        assert content.decode(errors="replace") == choice.message.content
        assert all(entry.logprob == entry.top_logprobs[0].logprob for entry in choice.logprobs.content)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 60


async def test_the_official_client_reads_the_log_probabilities_of_a_stream(
    client: openai.AsyncOpenAI,
) -> None:
    arguments: dict[str, Any] = {
        "model": "m",
        "prompt": PROMPT,
        "temperature": 0,
        "max_tokens": 20,
        "logprobs": 1,
    }

    whole = await client.completions.create(**arguments)
    stream = await client.completions.create(**arguments, stream=True)
    pieces = [chunk.choices[0].logprobs async for chunk in stream]

    shown = whole.choices[0].logprobs
    assert shown is not None
    assert shown.tokens is not None
    assert len(shown.tokens) == 20
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        joined = [one for piece in pieces if piece for one in getattr(piece, name)]
        assert joined == getattr(shown, name)


async def test_a_stream_of_any_tokens_is_whole_characters(client: openai.AsyncOpenAI) -> None:
    arguments: dict[str, Any] = {
        "model": "m",
        "prompt": PROMPT,
        "temperature": 2.0,
        "max_tokens": 200,
        "seed": 4,
        "extra_body": {"ignore_eos": True},
    }

    whole = await client.completions.create(**arguments)
    stream = await client.completions.create(**arguments, stream=True)
    pieces = [chunk.choices[0].text async for chunk in stream]

    # Tokens at random are bytes at random: most are no text, and the ways to show them must agree.
    assert "".join(pieces) == whole.choices[0].text
    assert "".join(pieces).encode()


async def test_the_bytes_of_all_tokens_make_up_what_they_decode_to(tokenizer: EngineTokenizer) -> None:
    text = "Grüße aus Köln: naïve café, 日本語 and 🙂."
    tokens = tokenizer.encode(text)

    assert b"".join(map(tokenizer.token_bytes, tokens)).decode() == text
    assert tokenizer.token_bytes(EOS) == b"</s>"
    # The checkpoint's vocabulary is padded.
    assert tokenizer.token_bytes(VOCABULARY - 1) == b""
