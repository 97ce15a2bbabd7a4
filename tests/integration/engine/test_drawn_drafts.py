"""Drafts that are drawn from a law of their own, through the whole engine: the target's law stays.

The target and the proposer are two Markov chains, so the law of the text and the share of accepted drafts are
known. How verification judges is tested line by line in tests/unit/engine/test_law.py; here the core, the
scheduler, changing depths and the model stand between.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.integration.engine.checkpoints import save_markov, transition_matrix
from tests.integration.engine.driving import Run, drive
from tests.integration.engine.test_sampled_law import Matrix, p_value

from specfleet_engine.cache import FeatureCache
from specfleet_engine.core import EngineCore
from specfleet_engine.load import load_model
from specfleet_engine.proposers import Draft, Needs
from specfleet_engine.sampling import distribution, draw
from specfleet_engine.sequence import Sequence
from specfleet_engine.stream import DRAFT
from specfleet_serving.core import Request, Sampling

SIZE = 12
TARGET = transition_matrix(SIZE, seed=5)
PROPOSER = 0.5 * TARGET + 0.5 * transition_matrix(SIZE, seed=6)
LENGTH = 8
REQUESTS = 1500


class DrawingProposer:
    """Draws from the proposer's chain, with the request's own random numbers, and tells the law."""

    method = "draftModel"
    needs = Needs()
    bytes_per_token = 0
    draws = True
    reach = None

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        pass

    def propose(self, sequences: tuple[Sequence, ...], depths: tuple[int, ...]) -> list[Draft]:
        return list(map(self._draft, sequences, depths))

    def observe(self, sequences: tuple[Sequence, ...]) -> None:
        pass

    def forget(self, sequence_id: str) -> None:
        pass

    def _draft(self, sequence: Sequence, depth: int) -> Draft:
        tokens, laws = [int(sequence.tokens[-1])], []
        for uniform in sequence.stream.peek(depth)[:, DRAFT]:
            law = distribution(torch.from_numpy(np.log(PROPOSER[tokens[-1:]])), [sequence.sampling])
            tokens.append(int(draw(law, torch.tensor([uniform]))))
            laws.append(law)
        return Draft(np.array(tokens[1:]), torch.cat(laws))


def run_at(folder: Path, temperature: float) -> Run:
    core = EngineCore(
        load_model(folder, torch.float32),
        DrawingProposer(),
        max_model_len=32,
        max_num_seqs=300,
        max_depth=4,
        kv_cache_mib=16,
    )
    requests = [
        Request(str(seed), (3,), Sampling(max_tokens=LENGTH, temperature=temperature, seed=seed))
        for seed in range(REQUESTS)
    ]
    return drive(core, requests, lambda number: (4, 1, 0, 2, 3)[number % 5])


def counted(run: Run) -> Matrix:
    counts = np.zeros((SIZE, SIZE))
    for text in run.texts.values():
        np.add.at(counts, ([3, *text[:-1]], text), 1)
    return counts


@pytest.mark.fault("z-lab/dflash#74", "vllm#16899", "openvinotoolkit/openvino.genai#4190")
@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_the_text_follows_the_target_while_the_depth_changes(tmp_path: Path, temperature: float) -> None:
    law = TARGET ** (1 / temperature)
    law /= law.sum(axis=1, keepdims=True)

    run = run_at(save_markov(tmp_path, TARGET), temperature)

    assert 0.4 * run.drafted < run.accepted < 0.95 * run.drafted
    assert p_value(counted(run), law) > 1e-4


@pytest.mark.fault("sglang#11572")
def test_first_drafts_are_accepted_as_often_as_the_two_laws_agree(tmp_path: Path) -> None:
    run = run_at(save_markov(tmp_path, TARGET), 1.0)

    agreement = np.minimum(TARGET, PROPOSER).sum(axis=1)
    last = dict.fromkeys(run.texts, 3)
    chances, accepted = [], []
    for sequence in (one for step in run.steps for one in step.sequences):
        if sequence.drafted:
            chances.append(agreement[last[sequence.request_id]])
            accepted.append(sequence.accepted > 0)
        last[sequence.request_id] = sequence.tokens[-1]
    expected = np.array(chances)
    assert abs(np.sum(accepted) - expected.sum()) < 4 * np.sum(expected * (1 - expected)) ** 0.5
