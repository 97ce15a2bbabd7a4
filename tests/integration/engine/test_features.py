"""A proposer finds the states of the target that it asked for in the slots of each verified token."""

from pathlib import Path

import pytest
import torch
from tests.integration.engine.driving import Scripted, greedy
from transformers import AutoModelForCausalLM

from specfleet_engine.cache import slots_for
from specfleet_engine.core import EngineCore
from specfleet_engine.load import load_model
from specfleet_engine.proposers import Needs

PROMPT = (7, 40, 99, 5, 230, 311, 18)


def wrong(needs: Needs) -> Scripted:
    """Drafts the first token of the prompt for ever."""
    return Scripted(lambda sequence, depth: [PROMPT[0]] * depth, needs)


def a_core(folder: Path, proposer: Scripted, max_model_len: int = 64) -> EngineCore:
    return EngineCore(
        load_model(folder, torch.float32),
        proposer,
        max_model_len=max_model_len,
        max_num_seqs=2,
        max_depth=3,
        kv_cache_mib=8,
    )


def test_the_features_of_verified_tokens_are_the_hidden_states_of_transformers(llama: Path) -> None:
    proposer = wrong(Needs(entering=(2, 4, 5), final=True))
    core = a_core(llama, proposer)
    core.add(greedy("r", PROMPT, 20))

    for _ in range(6):
        core.step(3)

    (sequence,) = proposer.seen
    assert sequence.written == len(sequence) - 1 > len(PROMPT)
    assert proposer.features is not None
    features = proposer.features.read(torch.from_numpy(slots_for(sequence.blocks, 0, sequence.written)))
    theirs = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32, attn_implementation="sdpa")
    with torch.inference_mode():
        states = theirs(
            input_ids=torch.from_numpy(sequence.tokens[None, :-1]), output_hidden_states=True
        ).hidden_states
    # The last of transformers' list is the state after the final norm.
    wanted = torch.cat([states[2], states[4], states[5], states[-1]], dim=-1)[0]
    assert torch.allclose(features, wanted, atol=2e-5, rtol=0)


@pytest.mark.fault("sglang#13376")
@pytest.mark.fault("vllm#5000")
def test_at_depth_zero_the_proposer_is_not_called_and_its_features_are_kept(llama: Path) -> None:
    proposer = wrong(Needs(final=True))
    core = a_core(llama, proposer)
    core.add(greedy("r", PROMPT, 20))

    for _ in range(4):
        core.step(0)
    assert proposer.calls == []
    core.step(2)

    assert proposer.calls == ["propose", "observe"]
    (sequence,) = proposer.seen
    assert proposer.features is not None
    kept = proposer.features.read(torch.from_numpy(slots_for(sequence.blocks, 0, sequence.written)))
    assert (kept.abs().sum(dim=-1) > 0).all()


def test_a_request_that_leaves_is_forgotten(llama: Path) -> None:
    proposer = wrong(Needs())
    core = a_core(llama, proposer)
    core.add(greedy("r", PROMPT, 20))
    core.step(2)

    core.remove("r")

    assert proposer.features is None
    assert proposer.calls == ["observe", "forget r"]


def test_features_count_as_memory_of_the_kv_cache(llama: Path) -> None:
    # 4 KiB of KV a token, and 4 states of 128 x 4 bytes: 6 KiB, so 8 MiB hold 85 blocks of 16.
    core = a_core(llama, wrong(Needs(entering=(2, 4, 5), final=True)), max_model_len=1024)

    assert core.limits.kv_tokens == 85 * 16


def test_a_layer_that_the_model_lacks_is_refused(llama: Path) -> None:
    with pytest.raises(ValueError, match="the model has layers 0 to 7, not 8"):
        load_model(llama, torch.float32).watch(Needs(entering=(2, 8)))
