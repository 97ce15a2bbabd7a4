"""The built-in engine behind its HTTP side: what a request changes, and what it is told."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
import torch
from tests.integration.engine.checkpoints import VOCABULARY
from tests.integration.engine.driving import a_core
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
