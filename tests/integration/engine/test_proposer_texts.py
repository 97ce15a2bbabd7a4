"""No proposer changes a greedy text: in float32 it is the one of transformers' own `generate`.

Each proposer, both forms of its checkpoint where there are two, at each depth, alone and in a batch of 8, and
whatever else goes on: the depth changes, requests lose their blocks, find theirs in the prefix cache, or are
read in chunks. What n-gram look-up does in all this is counted more closely in test_greedy_text.py.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.integration.engine.checkpoints import VOCABULARY
from tests.integration.engine.driving import Run, a_drafting_core, drive, generate, greedy

from specfleet_engine.cache import BLOCK_SIZE
from specfleet_engine.core import PROMPT_TOKENS_PER_STEP
from specfleet_serving.core import Request

NAMES = (
    "ngram",
    "itself",
    "blurred",
    "draft-model",
    "eagle",
    "eagle3",
    "eagle3-speculators",
    "medusa",
    "medusa-in-blocks",
)
LENGTH = 40
CHUNK = PROMPT_TOKENS_PER_STEP["cpu"]

Proposers = dict[str, tuple[str, Path | None]]
Prompts = dict[str, tuple[int, ...]]


def prompt(seed: int, tokens: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(3, VOCABULARY, size=tokens).tolist())


PROMPTS = {f"r{number}": prompt(number, 5 + 7 * number) for number in range(8)}
SYSTEM = prompt(50, 40)
CHATS = {f"chat{number}": (*SYSTEM, *prompt(51 + number, 1 + 3 * number)) for number in range(8)}
LONG = {"long": prompt(99, 2 * CHUNK + 40)}


def requests(prompts: Prompts) -> list[Request]:
    return [greedy(name, tokens, LENGTH) for name, tokens in prompts.items()]


@cache
def text_of(folder: Path, tokens: tuple[int, ...]) -> list[int]:
    return generate(folder, tokens, LENGTH)


def is_right(run: Run, folder: Path, prompts: Prompts) -> bool:
    return run.texts == {name: text_of(folder, tokens) for name, tokens in prompts.items()}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.mark.fault("vllm#7627")
@pytest.mark.parametrize("depth", range(6))
def test_at_each_depth_alone_and_in_a_batch(llama: Path, proposers: Proposers, name: str, depth: int) -> None:
    core = a_drafting_core(llama, *proposers[name])

    for count in (8, 1):
        prompts = dict(list(PROMPTS.items())[:count])
        run = drive(core, requests(prompts), depth)

        assert is_right(run, llama, prompts)
        assert (run.drafted > 0) == (depth > 0)


def test_while_the_depth_changes(llama: Path, proposers: Proposers, name: str) -> None:
    core = a_drafting_core(llama, *proposers[name])

    run = drive(core, requests(PROMPTS), lambda number: (3, 0, 5, 1, 0, 0, 2)[number % 7])

    assert is_right(run, llama, PROMPTS)


def test_when_requests_lose_their_blocks(llama: Path, proposers: Proposers, name: str) -> None:
    core = a_drafting_core(llama, *proposers[name], max_model_len=96, kv_cache_mib=2)

    # With less than 2 MiB for 8 requests of up to 94 tokens somebody has to wait.
    run = drive(core, requests(PROMPTS), 4)

    assert core.limits.kv_tokens < sum(len(tokens) + LENGTH for tokens in PROMPTS.values())
    assert run.preempted > 0
    assert is_right(run, llama, PROMPTS)
    assert core.load().kv_usage == 0.0


def test_when_a_prompt_is_found_in_the_prefix_cache(llama: Path, proposers: Proposers, name: str) -> None:
    core = a_drafting_core(llama, *proposers[name])
    first = {"chat3": CHATS["chat3"]}
    assert is_right(drive(core, requests(first), 3), llama, first)

    run = drive(core, requests(CHATS), 3)

    # Of 40 tokens in common two blocks are full; of the conversation that was led before, three.
    assert run.cached == (7 * 2 + len(CHATS["chat3"]) // BLOCK_SIZE) * BLOCK_SIZE
    assert is_right(run, llama, CHATS)


def test_when_a_prompt_is_read_in_chunks_beside_others(llama: Path, proposers: Proposers, name: str) -> None:
    core = a_drafting_core(llama, *proposers[name], max_model_len=1024)
    two = {other: PROMPTS[other] for other in ("r0", "r5")}

    run = drive(core, requests(two), 3, joining={3: requests(LONG)[0]})

    assert [step.prompt_tokens for step in run.steps[3:6]] == [CHUNK, CHUNK, 40]
    assert all(step.decoding == 2 for step in run.steps[3:6])
    assert is_right(run, llama, two | LONG)


def test_a_blurred_copy_of_the_target_is_right_now_and_then(llama: Path, proposers: Proposers) -> None:
    run = drive(a_drafting_core(llama, *proposers["blurred"]), requests(PROMPTS), 5)

    assert 0.1 * run.drafted < run.accepted < 0.9 * run.drafted
