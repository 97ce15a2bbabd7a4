"""At temperature 0 in float32 the text is the one of transformers, whatever the engine does beside it."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.integration.engine.checkpoints import VOCABULARY
from tests.integration.engine.driving import Scripted, a_core, drive, generate, greedy

from specfleet_engine.core import PROMPT_TOKENS_PER_STEP
from specfleet_engine.sequence import Sequence
from specfleet_serving.core import Request

LENGTH = 60
WRONG = {3, 4, 9, 16, 22, 23, 24, 31, 37, 44, 52, 53}
CHUNK = PROMPT_TOKENS_PER_STEP["cpu"]


def prompt(seed: int, tokens: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(3, VOCABULARY, size=tokens).tolist())


PROMPTS = tuple(prompt(seed, 5 + 7 * seed) for seed in range(8))


@cache
def expected(folder: Path, tokens: tuple[int, ...], length: int = LENGTH) -> list[int]:
    return generate(folder, tokens, length)


def requests(count: int) -> list[Request]:
    return [greedy(f"r{number}", PROMPTS[number], LENGTH) for number in range(count)]


def all_expected(folder: Path, count: int) -> dict[str, list[int]]:
    return {f"r{number}": expected(folder, PROMPTS[number]) for number in range(count)}


@pytest.mark.fault("vllm#7627")
@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("depth", range(6))
def test_every_depth_and_batch_gives_the_text_of_transformers(llama: Path, depth: int, count: int) -> None:
    run = drive(a_core(llama), requests(count), depth)

    assert run.texts == all_expected(llama, count)
    if depth:
        assert 0 < run.accepted < run.drafted
    else:
        assert run.drafted == 0


def half_right(folder: Path) -> Scripted:
    """Drafts the right text but at `WRONG` places, which fall on every place within a draft."""

    def guess(sequence: Sequence, depth: int) -> list[int]:
        begin = len(sequence) - sequence.prompt_length
        text = expected(folder, tuple(sequence.tokens[: sequence.prompt_length].tolist()))
        return [
            (token + 1) % VOCABULARY if place in WRONG else token
            for place, token in enumerate(text[begin : begin + depth], begin)
        ]

    return Scripted(guess)


@pytest.mark.parametrize("depth", range(1, 6))
def test_a_rejection_at_any_place_leaves_no_trace(llama: Path, depth: int) -> None:
    run = drive(a_core(llama, proposer=half_right(llama)), requests(8), depth)

    assert run.texts == all_expected(llama, 8)
    assert 0 < run.accepted < run.drafted


def test_drafts_save_steps(llama: Path) -> None:
    plain, drafting = (drive(a_core(llama), requests(1), depth) for depth in (0, 4))

    assert len(plain.decode_steps) == LENGTH - 1
    assert len(drafting.decode_steps) == LENGTH - 1 - drafting.accepted


def test_a_depth_that_changes_at_every_step_changes_no_text(llama: Path) -> None:
    run = drive(a_core(llama), requests(8), lambda number: (3, 0, 5, 1, 0, 0, 2)[number % 7])

    assert run.texts == all_expected(llama, 8)
    assert {step.depth for step in run.decode_steps} == {0, 1, 2, 3, 5}


def test_requests_that_join_and_leave_change_no_other_text(llama: Path) -> None:
    first, *later = requests(8)
    joining = {4 + 5 * number: request for number, request in enumerate(later)}

    run = drive(a_core(llama), [first], 3, joining=joining, leaving={12: "r1", 25: "r4"})

    whole = all_expected(llama, 8)
    stayed = {name: text for name, text in run.texts.items() if name not in {"r1", "r4"}}
    assert stayed == {name: text for name, text in whole.items() if name not in {"r1", "r4"}}
    assert run.texts["r1"] == whole["r1"][: len(run.texts["r1"])] != whole["r1"]


@pytest.mark.parametrize("depth", [0, 3])
def test_a_preempted_request_goes_on_where_it_was(llama: Path, depth: int) -> None:
    # 1 MiB holds 16 blocks of this model (64 KiB each): 256 tokens for 8 requests of up to 114.
    core = a_core(llama, max_model_len=128, kv_cache_mib=1)

    run = drive(core, requests(8), depth)

    assert core.limits.kv_tokens == 256
    assert run.preempted > 0
    assert run.texts == all_expected(llama, 8)
    assert run.read == sum(len(tokens) for tokens in PROMPTS)
    assert sorted(name for step in run.steps for name in step.admitted) == [f"r{n}" for n in range(8)]


def test_a_long_prompt_is_read_in_chunks_while_others_decode(llama: Path) -> None:
    long = prompt(99, 2 * CHUNK + 40)
    core = a_core(llama, max_model_len=1024)

    run = drive(core, requests(1), 2, joining={3: greedy("long", long, 10)})

    assert run.texts == all_expected(llama, 1) | {"long": expected(llama, long, 10)}
    assert [step.prompt_tokens for step in run.steps[3:6]] == [CHUNK, CHUNK, 40]
    assert all(step.decoding for step in run.steps[1:])
    assert [len(step.sequences) for step in run.steps[3:6]] == [1, 1, 2]


def test_a_batch_beyond_the_largest_waits_and_is_served(llama: Path) -> None:
    core = a_core(llama, max_num_seqs=2)
    for request in requests(5):
        core.add(request)

    core.step(0)

    assert (core.load().running, core.load().waiting) == (2, 3)
    for number in range(5):
        core.remove(f"r{number}")
    assert drive(core, requests(5), 2).texts == all_expected(llama, 5)


def test_no_token_is_drafted_or_given_beyond_the_limits(llama: Path) -> None:
    core = a_core(llama, max_model_len=64)

    run = drive(core, [greedy("short", PROMPTS[0], 7), greedy("full", PROMPTS[3], 64 - len(PROMPTS[3]))], 5)

    assert {name: len(text) for name, text in run.texts.items()} == {"short": 7, "full": 64 - len(PROMPTS[3])}
    given = {"short": 0, "full": 0}
    for step in run.steps:
        for sequence in step.sequences:
            left = (7 if sequence.request_id == "short" else 64 - len(PROMPTS[3])) - given[
                sequence.request_id
            ]
            assert sequence.drafted <= left - 1
            given[sequence.request_id] += len(sequence.tokens)


def test_a_depth_that_was_not_prepared_is_refused(llama: Path) -> None:
    with pytest.raises(ValueError, match="depth must be 0 to 5, got 6"):
        a_core(llama).step(6)


def test_an_idle_core_has_nothing_to_do(llama: Path) -> None:
    assert a_core(llama).step(3) is None
