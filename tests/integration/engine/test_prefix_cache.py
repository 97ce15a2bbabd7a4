"""What was read once is not read again, and nothing but verified text is ever found in the cache."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.integration.engine.checkpoints import VOCABULARY, save_random
from tests.integration.engine.driving import Scripted, a_core, drive, generate, greedy

from specfleet_engine.cache import BLOCK_SIZE
from specfleet_engine.core import EngineCore
from specfleet_engine.sequence import Sequence
from specfleet_serving.core import Request, StepFailed

LENGTH = 30
SYSTEM = tuple(np.random.default_rng(1).integers(3, VOCABULARY, size=75).tolist())
PROMPTS = tuple(
    (*SYSTEM, *np.random.default_rng(100 + number).integers(3, VOCABULARY, size=3 * number + 1).tolist())
    for number in range(8)
)


@cache
def expected(folder: Path, tokens: tuple[int, ...]) -> list[int]:
    return generate(folder, tokens, LENGTH)


def requests() -> list[Request]:
    return [greedy(f"r{number}", prompt, LENGTH) for number, prompt in enumerate(PROMPTS)]


def published(core: EngineCore) -> set[bytes]:
    return set(core._scheduler.pool._published)


def keys_of(text: tuple[int, ...]) -> list[bytes]:
    sequence = Sequence(greedy("any", text, 1), len(text) + 1)
    return sequence.keys(len(text) // BLOCK_SIZE)


@pytest.mark.fault("vllm#53670")
@pytest.mark.parametrize("depth", [0, 1, 3, 5])
def test_a_common_beginning_is_read_once_and_changes_no_text(llama: Path, depth: int) -> None:
    core = a_core(llama)
    first = drive(core, requests()[:1], depth)

    run = drive(core, requests(), depth)

    assert first.cached == 0
    # The first prompt of 76 tokens is known but for what follows its last full block, as is the beginning of
    # the other seven.
    assert run.cached == 8 * 4 * BLOCK_SIZE
    assert run.read == sum(len(prompt) for prompt in PROMPTS)
    assert run.texts == {f"r{number}": expected(llama, prompt) for number, prompt in enumerate(PROMPTS)}


def test_a_beginning_that_is_shared_changes_no_text_of_a_model_with_a_sliding_window(tmp_path: Path) -> None:
    folder = save_random(tmp_path, "qwen2-window", layers=3)
    core = a_core(folder)
    drive(core, requests()[:1], 3)

    run = drive(core, requests(), 3)

    assert run.cached == 8 * 4 * BLOCK_SIZE
    assert run.texts == {f"r{number}": expected(folder, prompt) for number, prompt in enumerate(PROMPTS)}


def test_a_conversation_goes_on_from_its_own_answer(llama: Path) -> None:
    core = a_core(llama)
    answer = drive(core, [greedy("first", PROMPTS[0], LENGTH)], 3).texts["first"]
    longer = (*PROMPTS[0], *answer, 7, 8, 9)

    run = drive(core, [greedy("second", longer, LENGTH)], 3)

    # All but the last token of the answer has KV: 76 + 29 tokens, 6 full blocks.
    assert run.cached == 6 * BLOCK_SIZE
    assert run.texts["second"] == expected(llama, longer)


def test_the_last_token_of_a_known_prompt_is_read_for_its_logits(llama: Path) -> None:
    core = a_core(llama)
    prompt = PROMPTS[0][: 4 * BLOCK_SIZE]
    drive(core, [greedy("first", prompt, LENGTH)], 0)

    run = drive(core, [greedy("second", prompt, LENGTH)], 0)

    assert run.cached == 3 * BLOCK_SIZE
    assert run.texts["second"] == expected(llama, prompt)


@pytest.mark.fault("vllm#57128")
@pytest.mark.parametrize("wrong", [1, 3, 5], ids=lambda place: f"draft-{place}-wrong")
def test_no_draft_that_was_rejected_is_ever_published(llama: Path, wrong: int) -> None:
    """Drafts reach over block borders at every offset, right up to a wrong one."""

    def guess(sequence: Sequence, depth: int) -> list[int]:
        begin = len(sequence) - len(PROMPTS[0])
        text = expected(llama, PROMPTS[0])[begin : begin + depth]
        return [*text[: wrong - 1], *((token + 1) % VOCABULARY for token in text[wrong - 1 :])]

    core = a_core(llama, proposer=Scripted(guess))
    run = drive(core, [greedy("r", PROMPTS[0], LENGTH)], 5)

    assert run.drafted > run.accepted
    assert published(core) == set(keys_of((*PROMPTS[0], *run.texts["r"][:-1])))


@pytest.mark.parametrize("depth", [0, 3])
def test_a_block_whose_last_token_has_no_kv_yet_is_not_published(llama: Path, depth: int) -> None:
    core = a_core(llama)
    length = 5 * BLOCK_SIZE - len(PROMPTS[0])

    run = drive(core, [greedy("r", PROMPTS[0], length)], depth)

    # 80 tokens: the fifth block is full of tokens, and its last one was never read.
    assert published(core) == set(keys_of((*PROMPTS[0], *run.texts["r"]))[:4])


def test_drafts_that_are_accepted_at_the_end_fill_the_last_block(llama: Path) -> None:
    def right(sequence: Sequence, depth: int) -> list[int]:
        begin = len(sequence) - len(PROMPTS[0])
        return expected(llama, PROMPTS[0])[begin : begin + depth]

    core = a_core(llama, proposer=Scripted(right))

    # 76 tokens and one from the prompt, then a step of four drafts and one more: 81 of 82 have KV.
    run = drive(core, [greedy("r", PROMPTS[0], 6)], 5)

    assert run.accepted == 4
    assert published(core) == set(keys_of((*PROMPTS[0], *run.texts["r"])))
    assert len(published(core)) == 5


def test_a_preempted_request_finds_what_it_had_read(llama: Path) -> None:
    # 1 MiB holds 16 blocks of this model: 256 tokens.
    core = a_core(llama, max_model_len=256, kv_cache_mib=1)
    prompts = [(number + 3,) * 60 for number in range(3)]

    run = drive(core, [greedy(f"r{n}", prompt, LENGTH) for n, prompt in enumerate(prompts)], 2)

    assert run.preempted > 0
    # A second reading is no hit in the sense of the metric: the prompt counts once, and as read.
    assert (run.read, run.cached) == (180, 0)
    assert run.texts == {f"r{n}": expected(llama, prompt) for n, prompt in enumerate(prompts)}


def test_a_step_that_fails_publishes_nothing(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = a_core(llama)
    core.add(greedy("r", PROMPTS[0], LENGTH))
    monkeypatch.setattr(core._model, "run", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))

    with pytest.raises(StepFailed, match="out of memory"):
        core.step(3)

    assert published(core) == set()


def test_blocks_that_are_kept_for_others_do_not_count_as_used(llama: Path) -> None:
    core = a_core(llama)

    drive(core, requests(), 2)

    assert published(core)
    assert core.load().kv_usage == 0.0
