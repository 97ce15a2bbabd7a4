"""Every proposer drafts what its checkpoint means, and none of them changes a text.

Acceptance is compared with what the checkpoints' algebra says (checkpoints.md, section 6), never with a run
of the engine: an exchanged input, a state that was normed once too often or a head that is off by one
brings it from 1 to near 0.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.integration.engine.checkpoints import VOCABULARY, save_markov, transition_matrix
from tests.integration.engine.driving import (
    Run,
    a_constructed_core,
    a_drafting_core,
    drive,
    generate,
    greedy,
)
from tests.integration.engine.proposer_checkpoints import (
    CYCLE,
    LAYER_CONFIG,
    accepted_by_arithmetic,
    after,
    cycle_target,
    edit_config,
    in_blocks,
    save_constructed_eagle,
    save_constructed_eagle3,
    save_constructed_medusa,
    save_cycle_target,
    save_draft_model,
    save_random_eagle,
    save_random_eagle3,
    save_random_eagle3_speculators,
    spoiled_tokens,
)
from transformers import AutoModelForCausalLM

from specfleet_engine.batch import Batch
from specfleet_engine.cache import slots_for
from specfleet_engine.proposers.chain import CATCH_UP_TOKENS_PER_STEP, NEAR, ChainProposer
from specfleet_engine.proposers.layer import Layer
from specfleet_engine.proposers.networks import ModelNetwork
from specfleet_engine.sequence import Tokens
from specfleet_serving.core import Request

LENGTH = 40


def prompt(seed: int, tokens: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(3, VOCABULARY, size=tokens).tolist())


PROMPTS = tuple(prompt(seed, 5 + 7 * seed) for seed in range(8))


def requests(count: int) -> list[Request]:
    return [greedy(f"r{number}", PROMPTS[number], LENGTH) for number in range(count)]


@pytest.fixture(scope="module")
def texts(llama: Path) -> dict[str, list[int]]:
    """What transformers says."""
    return {f"r{number}": generate(llama, tokens, LENGTH) for number, tokens in enumerate(PROMPTS)}


def test_the_target_as_its_own_draft_model_is_always_right(llama: Path) -> None:
    for depth in range(1, 6):
        run = drive(a_drafting_core(llama, "draftModel", llama), requests(8), depth)

        assert run.accepted == run.drafted > 0


def test_the_target_as_its_own_draft_model_stays_right_when_the_depth_changes(llama: Path) -> None:
    core = a_drafting_core(llama, "draftModel", llama)

    run = drive(core, requests(8), lambda number: (3, 0, 5, 1, 0, 0, 2)[number % 7])

    assert run.accepted == run.drafted > 0


@pytest.mark.parametrize("name", ["draft-model", "eagle", "eagle3", "eagle3-speculators", "medusa"])
def test_a_random_draft_is_right_about_once_in_a_vocabulary(
    llama: Path, proposers: dict[str, tuple[str, Path | None]], name: str
) -> None:
    core = a_drafting_core(llama, *proposers[name], max_num_seqs=512)
    # Many short texts: a long one falls into a loop, in which a draft is right or wrong again and again.
    count = 8 * VOCABULARY
    starts = np.random.default_rng(3).integers(3, VOCABULARY, size=(count, 2)).tolist()

    run = drive(core, [greedy(str(number), start, 3) for number, start in enumerate(starts)], 5)

    assert run.drafted == count
    # By chance 1 in 384: 8 of 3,072, and by Poisson's law fewer than 1 or more than 20 with chance 0.0005.
    assert 1 <= run.accepted <= 20


# Constructed heads, over a target whose text is a cycle.


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_cycle_target(tmp_path_factory.mktemp("cycle"))


def cycle_requests(length: int) -> list[Request]:
    """One that begins at each token of the cycle."""
    return [greedy(str(token), (token, after(token)), length) for token in CYCLE]


def cycle_texts(length: int) -> dict[str, list[int]]:
    """What follows each token of the cycle and its successor."""
    texts = {}
    for place, token in enumerate(CYCLE):
        texts[str(token)] = [CYCLE[(place + 2 + step) % len(CYCLE)] for step in range(length)]
    return texts


@pytest.mark.parametrize("name", ["eagle", "eagle3", "medusa", "medusa-in-blocks"])
def test_an_intact_constructed_head_is_always_right(cycle: Path, tmp_path: Path, name: str) -> None:
    folder = {
        "eagle": lambda: save_constructed_eagle(tmp_path, len(CYCLE)),
        "eagle3": lambda: save_constructed_eagle3(tmp_path),
        "medusa": lambda: save_constructed_medusa(tmp_path, cycle_target()),
        "medusa-in-blocks": lambda: in_blocks(
            save_constructed_medusa(tmp_path / "original", cycle_target()), tmp_path / "blocks"
        ),
    }[name]()

    run = drive(a_constructed_core(cycle, name.removesuffix("-in-blocks"), folder), cycle_requests(60), 4)

    assert run.accepted == run.drafted > 64 * 40
    assert run.texts == cycle_texts(60)


@pytest.mark.parametrize("method", ["eagle", "eagle3"])
def test_a_spoiled_head_is_wrong_exactly_where_it_was_spoiled(
    cycle: Path, tmp_path: Path, method: str
) -> None:
    spoiled = spoiled_tokens(0.25)
    folder = (
        save_constructed_eagle(tmp_path, len(CYCLE), spoiled)
        if method == "eagle"
        else save_constructed_eagle3(tmp_path, spoiled)
    )

    run = drive(a_constructed_core(cycle, method, folder), cycle_requests(60), 4)

    wanted = np.sum([accepted_by_arithmetic(after(after(token)), 60, 4, spoiled) for token in CYCLE], axis=0)
    assert run.texts == cycle_texts(60)
    assert per_position(run, 4) == wanted.tolist()
    # Near (1 - s)^i, as the design says of a random quarter.
    assert np.allclose(wanted[1] / wanted[0], 0.75 ** np.arange(1, 5), atol=0.1)


def per_position(run: Run, depth: int) -> list[list[int]]:
    """Drafted and accepted at each position, of all requests together."""
    sequences = [sequence for step in run.steps for sequence in step.sequences]
    return [
        [sum(getattr(sequence, what) > place for sequence in sequences) for place in range(depth)]
        for what in ("drafted", "accepted")
    ]


def test_a_reduced_vocabulary_is_right_on_what_it_holds_and_wrong_on_the_rest(
    cycle: Path, tmp_path: Path
) -> None:
    folder = save_constructed_eagle3(tmp_path, halved=True)

    run = drive(a_constructed_core(cycle, "eagle3", folder, depth=1), cycle_requests(60), 1)

    outcomes: dict[bool, set[int]] = {True: set(), False: set()}
    for step in run.steps:
        for sequence in step.sequences:
            if sequence.drafted:
                outcomes[sequence.tokens[0] % 2 == 0].add(sequence.accepted)
    assert outcomes == {True: {1}, False: {0}}


def test_medusa_drafts_no_further_than_it_has_heads(cycle: Path, tmp_path: Path) -> None:
    folder = save_constructed_medusa(tmp_path, cycle_target(), heads=2)

    run = drive(a_constructed_core(cycle, "medusa", folder), cycle_requests(20), 4)

    assert max(sequence.drafted for step in run.steps for sequence in step.sequences) == 2
    assert run.accepted == run.drafted


def test_a_greedy_draft_model_is_right_as_often_as_the_matrices_agree(tmp_path: Path) -> None:
    ours, theirs = transition_matrix(64, seed=1), transition_matrix(64, seed=2)
    agree = transition_matrix(64, seed=1)
    half = np.arange(64) % 2 == 0
    agree[half] = theirs[half]
    target, draft = save_markov(tmp_path / "target", ours), save_markov(tmp_path / "draft", agree)
    right = (ours.argmax(axis=1) == agree.argmax(axis=1)).tolist()

    run = drive(a_constructed_core(target, "draftModel", draft, depth=1), cycle_requests(30), 1)

    texts = {name: [after(int(name)), *text] for name, text in run.texts.items()}
    places = dict.fromkeys(texts, 1)
    for step in run.steps:
        for sequence in step.sequences:
            if sequence.drafted:
                last = texts[sequence.request_id][places[sequence.request_id]]
                assert sequence.accepted == right[last]
            if not sequence.first:
                places[sequence.request_id] += len(sequence.tokens)
    assert 0 < run.accepted < run.drafted


# State: what a proposer knows after depth 0, after a long prompt, and after its own end.


@pytest.mark.fault("TRT-LLM#16888", "sglang#13804")
def test_drafting_goes_on_rightly_after_a_long_time_at_depth_0(cycle: Path, tmp_path: Path) -> None:
    folder = save_constructed_eagle(tmp_path, len(CYCLE))

    run = drive(
        a_constructed_core(cycle, "eagle", folder),
        [greedy("r", CYCLE[:3], 100)],
        lambda number: 0 if 5 <= number < 15 + NEAR else 4,
    )

    assert run.accepted == run.drafted > 0
    # A request that is further behind than `NEAR` first reads what it missed.
    assert [step.sequences[0].drafted for step in run.steps[15 + NEAR :]][:2] == [4, 4]


def test_a_draft_model_that_missed_a_long_text_catches_up_in_bounded_pieces(llama: Path) -> None:
    behind = 2 * CATCH_UP_TOKENS_PER_STEP + 20
    core = a_drafting_core(llama, "draftModel", llama, max_model_len=1024)
    core.add(greedy("r", prompt(1, behind), 60))
    while not core.load().decoding:
        core.step(0)

    drafted = []
    while len(drafted) < 8 and (step := core.step(3)):
        drafted.append(step.sequences[0].drafted)
        assert step.sequences[0].accepted == step.sequences[0].drafted

    # Each step reads one piece, and one more when it observes what the target did.
    assert drafted[0] == 0
    assert drafted[2:] == [3] * 6


def test_a_long_prompt_is_read_along_so_that_the_first_decode_step_drafts(llama: Path) -> None:
    core = a_drafting_core(llama, "draftModel", llama, max_model_len=1024)
    core.add(greedy("r", prompt(1, 600), 20))
    while not core.load().decoding:
        core.step(3)

    step = core.step(3)

    assert step is not None
    assert (step.sequences[0].drafted, step.sequences[0].accepted) == (3, 3)


@pytest.mark.fault("vllm#53670")
@pytest.mark.parametrize("name", ["itself", "eagle"])
def test_a_prompt_that_was_read_for_another_request_is_not_read_again(
    llama: Path, proposers: dict[str, tuple[str, Path | None]], name: str
) -> None:
    core = a_drafting_core(llama, *proposers[name], max_model_len=1024)
    shared = prompt(1, 600)
    first = drive(core, [greedy("first", shared, 8)], 3)

    core.add(greedy("second", (*shared, 7, 8), 8))
    cold, step = core.step(3), core.step(3)

    assert cold is not None
    assert cold.cached_prompt_tokens == 592
    assert step is not None
    assert step.sequences[0].drafted == 3
    if name == "itself":
        assert step.sequences[0].accepted == 3
        assert first.accepted == first.drafted


def test_blocks_that_another_text_has_used_are_read_again(llama: Path) -> None:
    # 2 MiB hold 448 tokens of both models: three texts of 200 push each other out.
    core = a_drafting_core(llama, "draftModel", llama, max_model_len=224, max_num_seqs=2, kv_cache_mib=2)

    for name in range(9):
        text = prompt(name % 3, 200)
        drive(core, [greedy(f"plain{name}", text, 12)], 0)
        run = drive(core, [greedy(f"drafted{name}", prompt(name % 2, 180), 20)], 3)
        assert run.accepted == run.drafted > 0


def test_a_draft_model_drafts_nothing_beyond_its_own_positions(
    llama: Path, tmp_path: Path, texts: dict[str, list[int]]
) -> None:
    short = save_draft_model(tmp_path, max_position_embeddings=48)
    core = a_drafting_core(llama, "draftModel", short)

    run = drive(core, requests(8), 3)

    assert run.texts == texts
    length = {request.id: len(request.prompt) for request in requests(8)}
    for step in run.steps:
        for sequence in step.sequences:
            # The last draft was guessed after reading position 47 at most.
            assert length[sequence.request_id] + sequence.drafted <= 48 + 1 or not sequence.drafted
            length[sequence.request_id] += len(sequence.tokens)
    assert run.drafted > 0


def a_short_head(folder: Path, name: str) -> Path:
    """A head that was made for 48 positions, as its config says."""
    if name == "eagle3-speculators":
        inner = {**LAYER_CONFIG, "max_position_embeddings": 48}
        return save_random_eagle3_speculators(folder, transformer_layer_config=inner)
    saved = save_random_eagle(folder) if name == "eagle" else save_random_eagle3(folder)
    edit_config(saved, max_position_embeddings=48)
    return saved


@pytest.mark.fault("sglang#6783", "vllm#48894")
@pytest.mark.parametrize("name", ["eagle", "eagle3", "eagle3-speculators"])
def test_a_head_drafts_nothing_beyond_its_own_positions(
    llama: Path, tmp_path: Path, texts: dict[str, list[int]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions: set[int] = set()
    attention = Layer.attention

    def watched(layer: Layer, states: torch.Tensor, places: torch.Tensor, batch: Batch) -> torch.Tensor:
        positions.update(places.tolist())
        return attention(layer, states, places, batch)

    monkeypatch.setattr(Layer, "attention", watched)
    method = "eagle" if name == "eagle" else "eagle3"
    core = a_drafting_core(llama, method, a_short_head(tmp_path, name))

    run = drive(core, requests(8), 3)

    assert run.texts == texts
    assert positions == set(range(48))


def keys_of(model: Any, tokens: Tokens, layer: int = 0) -> torch.Tensor:
    """The keys [tokens, kv heads, size] of a layer that transformers calculates in one pass."""
    with torch.inference_mode():
        cache = model(torch.from_numpy(tokens)[None], use_cache=True).past_key_values
    keys: torch.Tensor = cache.layers[layer].keys[0].transpose(0, 1)
    return keys


@pytest.mark.fault("llama.cpp#26478")
def test_what_a_draft_model_has_read_has_no_gap_and_ends_at_the_verified_tokens(
    llama: Path, tmp_path: Path
) -> None:
    draft = save_draft_model(tmp_path)
    core = a_drafting_core(llama, "draftModel", draft)
    for request in requests(4):
        core.add(request)
    chain = core._proposer
    assert isinstance(chain, ChainProposer)
    network = chain._network
    assert isinstance(network, ModelNetwork)
    reference = AutoModelForCausalLM.from_pretrained(draft, dtype=torch.float32)
    for number in range(24):
        core.step((3, 1, 0, 5)[number % 4])
        for sequence in core._sequences.values():
            if not sequence.blocks:
                continue
            read = chain._settled(sequence).read
            if not read:
                continue
            assert read <= len(sequence)
            slots = torch.from_numpy(slots_for(sequence.blocks, 0, read))
            keys = network._kv.keys[0].flatten(0, 1)[slots]
            assert torch.allclose(keys, keys_of(reference, sequence.tokens[:read]), atol=1e-4)


@pytest.mark.parametrize("tail", [7, 13, 18])
def test_catching_up_on_a_shared_prompt_leaves_whole_what_others_have_read(llama: Path, tail: int) -> None:
    core = a_drafting_core(llama, "draftModel", llama, max_model_len=1024)
    shared = prompt(1, CATCH_UP_TOKENS_PER_STEP + 33)
    for number in range(3):
        core.add(greedy(f"r{number}", (*shared, *prompt(number + 2, tail)), 60))
        while core.load().decoding <= number:
            core.step(0)
    chain = core._proposer
    assert isinstance(chain, ChainProposer)
    network = chain._network
    assert isinstance(network, ModelNetwork)

    while (step := core.step(3)) and sum(sequence.drafted for sequence in step.sequences) < 9:
        pass

    reference = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32)
    for sequence in core._sequences.values():
        read = chain._settled(sequence).read
        slots = torch.from_numpy(slots_for(sequence.blocks, 0, read))
        keys = network._kv.keys[-1].flatten(0, 1)[slots]
        # A layer's keys show what the layers below it have seen.
        assert torch.allclose(keys, keys_of(reference, sequence.tokens[:read], layer=-1), atol=1e-4)


def test_a_name_that_is_used_again_begins_anew(llama: Path) -> None:
    core = a_drafting_core(llama, "draftModel", llama)
    drive(core, [greedy("same", PROMPTS[5], 30)], 4)

    run = drive(core, [greedy("same", PROMPTS[2], 30)], 4)

    assert run.accepted == run.drafted > 0


def test_the_features_of_eagle3_are_the_hidden_states_of_transformers(
    llama: Path, proposers: dict[str, tuple[str, Path | None]]
) -> None:
    core = a_drafting_core(llama, *proposers["eagle3"])
    reference = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32)
    core.add(greedy("r", PROMPTS[4], 10))
    core.step(3)

    sequence = core._sequences["r"]
    slots = torch.from_numpy(slots_for(sequence.blocks, 0, len(PROMPTS[4])))
    features = core._features.read(slots)

    with torch.inference_mode():
        states = reference(torch.tensor([PROMPTS[4]]), output_hidden_states=True).hidden_states
    # 8 layers: (2, 8 // 2, 8 - 3), joined in this order.
    wanted = torch.cat([states[2][0], states[4][0], states[5][0]], dim=-1)
    assert torch.allclose(features, wanted, atol=1e-5)


@pytest.mark.fault("vllm#9995")
def test_the_memory_of_the_proposer_counts_into_the_budget(
    llama: Path, proposers: dict[str, tuple[str, Path | None]]
) -> None:
    def tokens(name: str | None) -> int:
        method, folder = proposers[name] if name else ("none", None)
        return a_drafting_core(llama, method, folder, max_num_seqs=64, kv_cache_mib=4).limits.kv_tokens

    # fp32: 4,096 B a token for the 8 layers of 2 x 2 x 32 of the target. The small model has 1 layer: 512 B;
    # EAGLE one layer and one state of 128; EAGLE-3 one layer and three states; Medusa one state.
    more = {None: 0, "draft-model": 512, "eagle": 512 + 512, "eagle3": 512 + 3 * 512, "medusa": 512}
    assert {name: tokens(name) for name in more} == {
        name: (4 << 20) // (16 * (4096 + extra)) * 16 for name, extra in more.items()
    }
