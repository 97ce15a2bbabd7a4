"""Above temperature 0 every proposer draws its drafts, and the text still follows the target's law.

The target is a Markov chain of five tokens, so the probability of every text of a few tokens can be written
down (`tests.unit.engine.laws`); the proposers are real checkpoints over it. What a proposer says its drafts
were drawn from must be what they were drawn from: this is where a wrong d2t, a missing 0 outside of a draft
vocabulary, or a draft that was taken greedily would show.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.integration.engine.checkpoints import save_markov
from tests.integration.engine.driving import Run, a_constructed_core, drive
from tests.integration.engine.proposer_checkpoints import (
    save_constructed_eagle,
    save_constructed_eagle3,
    save_constructed_medusa,
)
from tests.unit.engine.laws import PROMPT, PROPOSER, SIZE, TARGET, Law, p_value, text_law

from specfleet_serving.core import Request, Sampling

LENGTH = 4
TEXTS = 1500

SETTINGS: dict[str, dict[str, float]] = {
    "T-0.7": {"temperature": 0.7},
    "T-1": {},
    "T-1.5": {"temperature": 1.5},
    "top-k-and-top-p": {"top_k": 4, "top_p": 0.85},
    "penalties": {"presence_penalty": 1.2, "repetition_penalty": 1.3},
}
SAVERS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "draft-model": ("draftModel", lambda folder: save_markov(folder, PROPOSER)),
    "eagle": ("eagle", lambda folder: save_constructed_eagle(folder, SIZE, {1, 4})),
    "eagle3-reduced": (
        "eagle3",
        lambda folder: save_constructed_eagle3(folder, halved=True, cycle=(0, 1, 2, 3, 4)),
    ),
    "medusa": ("medusa", lambda folder: save_constructed_medusa(folder, PROPOSER, heads=2)),
}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_markov(tmp_path_factory.mktemp("chain"), TARGET, layers=8)


@pytest.mark.fault("vllm#16899", "z-lab/dflash#74")
@pytest.mark.parametrize("name", SAVERS)
def test_the_text_follows_the_law_of_the_target(chain: Path, tmp_path: Path, name: str) -> None:
    method, save = SAVERS[name]
    core = a_constructed_core(chain, method, save(tmp_path), depth=3, max_num_seqs=500)

    for number, settings in enumerate(SETTINGS.values()):
        seeds = range(number * TEXTS, (number + 1) * TEXTS)
        run = drive(core, [_request(seed, LENGTH, settings) for seed in seeds], 3)

        assert 0 < run.accepted < run.drafted
        seen, law = _seen(run), text_law(_sampling(0, LENGTH, settings), LENGTH)
        # Neighbours only: 25 cells with enough in each for the approximation, where all would be 625.
        for first in range(LENGTH - 1):
            rest = tuple(place for place in range(LENGTH) if place not in (first, first + 1))
            assert p_value(seen.sum(axis=rest), law.sum(axis=rest)) > 1e-4


def _sampling(seed: int, length: int, settings: dict[str, float]) -> Sampling:
    return Sampling(max_tokens=length, seed=seed, **settings)  # type: ignore[arg-type]


def _request(seed: int, length: int, settings: dict[str, float]) -> Request:
    return Request(str(seed), PROMPT, _sampling(seed, length, settings))


def _seen(run: Run) -> Law:
    counts = np.zeros((SIZE,) * LENGTH)
    for text in run.texts.values():
        counts[tuple(text)] += 1
    return counts


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_a_head_with_the_targets_own_law_is_always_right_when_it_draws(
    chain: Path, tmp_path: Path, temperature: float
) -> None:
    core = a_constructed_core(chain, "eagle", save_constructed_eagle(tmp_path, SIZE))

    run = drive(core, [_request(seed, 50, {"temperature": temperature}) for seed in range(60)], 4)

    assert run.accepted == run.drafted > 2000


def test_a_drawn_draft_is_accepted_as_often_as_both_chains_agree(chain: Path, tmp_path: Path) -> None:
    core = a_constructed_core(chain, "draftModel", save_markov(tmp_path, PROPOSER), depth=1)
    # After token t that is the sum over y of the smaller of both probabilities (checkpoints.md, section 6B).
    agreement = np.minimum(TARGET, PROPOSER).sum(axis=1)

    run = drive(core, [_request(seed, 60, {}) for seed in range(60)], 1)

    places = dict.fromkeys(run.texts, 0)
    chances = []
    for step in run.steps:
        for sequence in step.sequences:
            if sequence.drafted:
                chances.append(agreement[run.texts[sequence.request_id][places[sequence.request_id] - 1]])
            places[sequence.request_id] += len(sequence.tokens)
    wanted, spread = sum(chances), sum(chance * (1 - chance) for chance in chances) ** 0.5
    assert len(chances) > 1500
    assert abs(run.accepted - wanted) < 4 * spread
