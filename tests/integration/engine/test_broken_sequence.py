"""A request for which the model has no usable numbers fails alone, and what it leaves behind harms nobody."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.integration.engine.checkpoints import save_random
from tests.integration.engine.driving import a_core, greedy
from tests.integration.engine.proposer_checkpoints import HIDDEN, edit_tensors, save_random_eagle

from specfleet_engine.batch import Rows
from specfleet_engine.cache import FeatureCache
from specfleet_engine.core import PROMPT_TOKENS_PER_STEP, EngineCore
from specfleet_engine.load import load_model
from specfleet_engine.proposers.chain import ChainProposer
from specfleet_engine.proposers.choose import read_heads
from specfleet_engine.proposers.networks import EagleNetwork
from specfleet_engine.sequence import Sequence
from specfleet_serving.core import Request, StepFailed

POISON = 50
PROMPT = (5, 9, 5, 9, 5)


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A checkpoint in which one token's embedding is no number."""
    folder = save_random(tmp_path, layers=2)
    weights = load_file(folder / "model.safetensors")
    weights["model.embed_tokens.weight"][POISON] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def texts_of(core: EngineCore, requests: list[Request]) -> dict[str, list[int] | None]:
    """Run to the end as the loop does; None stands for a request that failed."""
    texts: dict[str, list[int] | None] = {request.id: [] for request in requests}
    for request in requests:
        core.add(request)
    while step := core.step(3):
        for sequence in step.sequences:
            text = texts[sequence.request_id]
            assert text is not None
            text.extend(sequence.tokens)
            if sequence.failed:
                texts[sequence.request_id] = None
            if sequence.failed or len(text) >= 30:
                core.remove(sequence.request_id)
    return texts


@pytest.mark.fault("vllm#18783")
def test_a_sequence_without_numbers_fails_alone_and_its_blocks_are_fit_for_others(poisoned: Path) -> None:
    good = greedy("good", PROMPT, 30)
    bad = [greedy(f"bad{number}", (*PROMPT * number, POISON, 7), 30) for number in range(1, 5)]
    alone = texts_of(a_core(poisoned, kv_cache_mib=1), [good])

    core = a_core(poisoned, kv_cache_mib=1)
    together = texts_of(core, [bad[0], good, *bad[1:]])
    # By now every block that had no numbers in it is free for this one.
    afterwards = texts_of(core, [greedy(f"later{number}", PROMPT, 30) for number in range(8)])

    assert together == alone | {request.id: None for request in bad}
    assert all(text == alone["good"] for text in afterwards.values())
    assert core.load().kv_usage == 0


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_without_numbers_leave_numbers_in_the_blocks_of_a_head(
    llama: Path, tmp_path: Path, dtype: torch.dtype, value: float
) -> None:
    folder = save_random_eagle(tmp_path)
    # Its rows add up to more than 1, so that the largest number of a type leads beyond it.
    edit_tensors(folder, fc__weight=torch.ones(HIDDEN, 2 * HIDDEN))
    chain = read_heads("eagle", folder, load_model(llama, dtype))
    assert isinstance(chain, ChainProposer)
    network = chain._network
    assert isinstance(network, EagleNetwork)
    features = FeatureCache(1, HIDDEN, dtype, torch.device("cpu"))
    features.write(torch.arange(8), 0, torch.full((8, HIDDEN), value, dtype=dtype))
    network.prepare(1, features)
    sequence = Sequence(greedy("bad", range(5, 14), 5), 64)
    sequence.blocks = [0]

    network.read([Rows(sequence, 1, sequence.tokens[1:])])

    assert network._kv.keys.isfinite().all()
    assert network._kv.values.isfinite().all()


def test_the_first_chunks_of_a_prompt_that_fails_at_its_end_are_not_published(poisoned: Path) -> None:
    core = a_core(poisoned)
    # The chunk without numbers is read in a step of its own, before anything of the prompt is judged.
    prompt = (*PROMPT, POISON, *PROMPT * 60)
    assert len(prompt) > PROMPT_TOKENS_PER_STEP["cpu"]

    failed = texts_of(core, [greedy("bad", prompt, 30)])

    assert failed == {"bad": None}
    assert not core._scheduler.pool.cached(Sequence(greedy("again", prompt, 30), 512).keys(1))


@pytest.mark.fault("vllm#18783")
def test_a_request_that_cannot_be_admitted_fails_alone(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = greedy("good", PROMPT, 30)
    alone = texts_of(a_core(llama), [good])
    core = a_core(llama)
    core.add(good)
    core.step(0)
    core.add(greedy("bad", PROMPT, 30))
    monkeypatch.setattr(core._sequences["bad"], "keys", lambda _: 1 / 0)

    with pytest.raises(StepFailed) as failure:
        core.step(0)
    core.remove("bad")
    text = []
    while step := core.step(0):
        text += [token for sequence in step.sequences for token in sequence.tokens]
        if len(text) == 29:
            core.remove("good")

    assert failure.value.requests == {"bad"}
    assert alone["good"] is not None
    assert text == alone["good"][1:]
    assert core.load().kv_usage == 0
