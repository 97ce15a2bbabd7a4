"""Above temperature 0 every proposer drafts, and the text still follows the target's law.

The target is a Markov chain of five tokens, so the probability of every text of a few tokens can be written
down (`tests.unit.engine.laws`); the proposers are real checkpoints over it, and n-gram look-up. What a
proposer says its drafts were drawn from must be what they were drawn from: this is where a wrong d2t, a
missing 0 outside of a draft vocabulary, or a draft that was taken greedily would show. Faults planted between
a real proposer and the text must fail the same chi-squared test.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.integration.engine.checkpoints import save_markov
from tests.integration.engine.driving import Run, a_constructed_core, drive
from tests.integration.engine.proposer_checkpoints import (
    save_constructed_eagle,
    save_constructed_eagle3,
    save_constructed_medusa,
)
from tests.unit.engine import laws
from tests.unit.engine.laws import (
    PROMPT,
    PROPOSER,
    SIZE,
    TARGET,
    Law,
    distance_from_uniform,
    p_value,
    text_law,
)

from specfleet_engine import core as core_module
from specfleet_engine import verify as verify_module
from specfleet_engine.batch import Rows
from specfleet_engine.core import EngineCore
from specfleet_engine.proposers import chain as chain_module
from specfleet_engine.proposers.drawing import Drawing, Vocabulary, draw_next
from specfleet_engine.sequence import Sequence
from specfleet_engine.verify import Verdict, verify
from specfleet_serving.core import Request, Sampling

LENGTH = 4
BLOCK = 500
BLOCKS = 2

SETTINGS: dict[str, dict[str, Any]] = {
    **laws.SETTINGS,
    "several": {
        "temperature": 0.7,
        "top_k": 4,
        "top_p": 0.9,
        "presence_penalty": 0.5,
        "repetition_penalty": 1.3,
    },
}
SAVERS: dict[str, tuple[str, Callable[[Path], Path | None]]] = {
    "ngram": ("ngram", lambda folder: None),
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


def _sampling(seed: int, length: int, settings: dict[str, Any]) -> Sampling:
    return Sampling(max_tokens=length, seed=seed, **settings)


def _request(seed: int, length: int, settings: dict[str, Any]) -> Request:
    return Request(str(seed), PROMPT, _sampling(seed, length, settings))


def a_core(chain: Path, name: str, place: Path) -> EngineCore:
    method, save = SAVERS[name]
    return a_constructed_core(chain, method, save(place), depth=3, max_num_seqs=BLOCK)


def sample(core: EngineCore, seeds: range, settings: dict[str, Any]) -> Run:
    return drive(core, [_request(seed, LENGTH, settings) for seed in seeds], 3)


def pair_values(run: Run, law: Law) -> list[float]:
    """One p-value for each two neighbours: 25 cells with enough in each, where all texts would be 625."""
    seen = np.zeros((SIZE,) * LENGTH)
    for text in run.texts.values():
        seen[tuple(text)] += 1
    values = []
    for first in range(LENGTH - 1):
        rest = tuple(place for place in range(LENGTH) if place not in (first, first + 1))
        values.append(p_value(seen.sum(axis=rest), law.sum(axis=rest)))
    return values


@pytest.fixture(scope="module")
def values_of(chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[list[float]]]:
    """Gives three p-values for each block of seeds of a proposer; no two blocks share a seed."""

    @cache
    def values(name: str) -> list[list[float]]:
        core, found = a_core(chain, name, tmp_path_factory.mktemp(name)), []
        first = list(SAVERS).index(name) * len(SETTINGS) * BLOCKS * BLOCK
        for settings in SETTINGS.values():
            law = text_law(_sampling(0, LENGTH, settings), LENGTH)
            for _ in range(BLOCKS):
                run = sample(core, range(first, first + BLOCK), settings)
                assert 0 < run.accepted < run.drafted
                found.append(pair_values(run, law))
                first += BLOCK
        return found

    return values


@pytest.mark.fault("vllm#16899", "z-lab/dflash#74", "vllm#10198", "vllm#18902")
@pytest.mark.parametrize("name", SAVERS)
def test_the_text_follows_the_law_of_the_target(
    values_of: Callable[[str], list[list[float]]], name: str
) -> None:
    # 300 values in all: one below 1e-5 has a chance of 0.3 %.
    assert min(map(min, values_of(name))) > 1e-5


@pytest.mark.parametrize("place", range(LENGTH - 1))
def test_p_values_are_uniform_over_seeds(values_of: Callable[[str], list[list[float]]], place: int) -> None:
    values = [block[place] for name in SAVERS for block in values_of(name)]

    # Kolmogorov: above 1.95 with a chance of 0.001. The blocks are independent, and here one value of each.
    assert len(values) == len(SAVERS) * len(SETTINGS) * BLOCKS
    assert distance_from_uniform(values) < 1.95


# Faults, planted between a real proposer and the text.

Judge = Callable[[torch.Tensor, tuple[Rows, ...]], list[Verdict]]


def last_lines(rows: tuple[Rows, ...]) -> list[int]:
    return (np.cumsum([row.drafts + 1 for row in rows]) - 1).tolist()


def accept_every_draft(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
    bare = tuple(replace(row, drafts=0, probabilities=None) for row in rows)
    verdicts = verify(logits[last_lines(rows)], bare)
    return [
        Verdict((*row.tokens[len(row.tokens) - row.drafts :].tolist(), *verdict.tokens), row.drafts)
        for row, verdict in zip(rows, verdicts, strict=True)
    ]


def judge_by_the_line_before(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
    moved, begin = logits.clone(), 0
    for row in rows:
        moved[begin + 1 : begin + 1 + row.drafts] = logits[begin : begin + row.drafts]
        begin += row.drafts + 1
    return verify(moved, rows)


def take_the_bonus_from_the_line_before(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
    moved = logits.clone()
    for end, row in zip(last_lines(rows), rows, strict=True):
        moved[end] = logits[end - 1] if row.drafts else logits[end]
    return verify(moved, rows)


def draw_and_tell(
    logits: torch.Tensor,
    sequences: tuple[Sequence, ...],
    drawings: list[Drawing],
    vocabulary: Vocabulary,
    *,
    fault: str,
) -> None:
    """What a proposer does for each token, and one thing of it wrong."""
    draw_next(logits, sequences, drawings, vocabulary)
    for line, drawing in zip(logits, drawings, strict=True):
        if fault == "the law that is told has no temperature":
            drawing.laws[-1] = line.softmax(dim=-1)
        else:
            drawing.tokens[-1] = int(line.argmax())


def with_a_whole_residual(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verify_module, "residual", lambda p, q: p)


def with_a_target_at_temperature_1(patch: pytest.MonkeyPatch) -> None:
    honest = verify_module.distribution
    patch.setattr(
        verify_module,
        "distribution",
        lambda logits, samplings: honest(logits, [replace(each, temperature=1.0) for each in samplings]),
    )


def judging(judge: Judge) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(core_module, "verify", judge)


def drawing(fault: str) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(chain_module, "draw_next", partial(draw_and_tell, fault=fault))


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "every draft is accepted": judging(accept_every_draft),
    "a rejected draft is replaced from the whole of p": with_a_whole_residual,
    "a draft is judged by the line before": judging(judge_by_the_line_before),
    "the bonus is that of the line before": judging(take_the_bonus_from_the_line_before),
    "the target has no temperature": with_a_target_at_temperature_1,
    "the law that is told has no temperature": drawing("the law that is told has no temperature"),
    "a likeliest draft is told as a drawn one": drawing("a likeliest draft is told as a drawn one"),
}


@pytest.mark.fault("vllm#16899", "openvinotoolkit/openvino.genai#4190")
@pytest.mark.parametrize("name", ["draft-model", "eagle"])
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(
    chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    settings = {"temperature": 0.5}
    core = a_core(chain, name, tmp_path)
    PLANTED[fault](monkeypatch)

    run = sample(core, range(3000), settings)

    # An honest engine's values are above 1e-5, in the test before.
    assert min(pair_values(run, text_law(_sampling(0, LENGTH, settings), LENGTH))) < 1e-9


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
