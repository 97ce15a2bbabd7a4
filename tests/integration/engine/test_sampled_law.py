"""Above temperature 0 the tokens follow the target's distribution, drafted or not.

The target is a real Llama whose distribution after each token is known (checkpoints.md, section 6B): its
likeliest next tokens make one cycle through the vocabulary, and the prompt is this cycle, so that look-up
drafts the likeliest token from the first decode step on. Faults planted into verification must fail the
same chi-squared test.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.integration.engine.checkpoints import cycle_matrix, save_markov, transition_matrix
from tests.integration.engine.driving import Run, drive

from specfleet_engine import core as core_module
from specfleet_engine.batch import Rows
from specfleet_engine.core import EngineCore
from specfleet_engine.load import load_model
from specfleet_engine.proposers.ngram import NgramProposer
from specfleet_engine.verify import Verdict, verify
from specfleet_serving.core import Request, Sampling

SIZE = 16
CYCLE = (3, 8, 1, 14, 6, 11, 0, 9, 4, 15, 2, 12, 7, 10, 5, 13)
MATRIX = 0.4 * cycle_matrix(CYCLE) + 0.6 * transition_matrix(SIZE, seed=3)
PROMPT = (*CYCLE, *CYCLE[:3])
LENGTH = 6
REQUESTS = 2000

Matrix = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def markov(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_markov(tmp_path_factory.mktemp("markov"), MATRIX)


def a_markov_core(folder: Path, max_num_seqs: int = 500) -> EngineCore:
    return EngineCore(
        load_model(folder, torch.float32),
        NgramProposer(1, 3),
        max_model_len=48,
        max_num_seqs=max_num_seqs,
        max_depth=3,
        kv_cache_mib=64,
    )


def sample(folder: Path, depth: int, count: int = REQUESTS, **settings: float) -> Run:
    requests = [
        Request(str(seed), PROMPT, Sampling(max_tokens=LENGTH, seed=seed, **settings))  # type: ignore[arg-type]
        for seed in range(count)
    ]
    return drive(a_markov_core(folder), requests, depth)


def processed(temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Matrix:
    """The rows of the target's matrix after temperature, top_k and top_p, calculated one at a time."""
    lines = []
    for line in MATRIX ** (1 / temperature):
        weights = line / line.sum()
        order = np.argsort(-weights)
        kept = order[: top_k or SIZE]
        share = weights[kept] / weights[kept].sum()
        kept = kept[: int(np.searchsorted(share.cumsum(), top_p)) + 1]
        only = np.zeros(SIZE)
        only[kept] = weights[kept]
        lines.append(only / only.sum())
    return np.array(lines)


def p_value(counts: Matrix, law: Matrix) -> float:
    """Chance of counts [token, next] at least this far from ``law``; 0 if something impossible happened."""
    if counts[law == 0].any():
        return 0.0
    square, freedom = 0.0, 0
    for line, chances in zip(counts, law, strict=True):
        observed, wanted = pooled(line, chances * line.sum())
        if len(wanted) > 1:
            square += float(((observed - wanted) ** 2 / wanted).sum())
            freedom += len(wanted) - 1
    assert freedom
    return float(torch.special.gammaincc(torch.tensor(freedom / 2), torch.tensor(square / 2)))


def pooled(observed: Matrix, wanted: Matrix) -> tuple[Matrix, Matrix]:
    """Join the rarest cells until each cell has 5 expected, which the approximation needs."""
    order = np.argsort(wanted)
    order = order[wanted[order] > 0]
    reached = np.flatnonzero(wanted[order].cumsum() >= 5)
    if not len(reached):
        return observed[:0], wanted[:0]
    starts = [0, *range(int(reached[0]) + 1, len(order))]
    return np.add.reduceat(observed[order], starts), np.add.reduceat(wanted[order], starts)


def p_values(run: Run, law: Matrix) -> list[float]:
    """One for the first token, one for each later position, and one for all of them together."""
    counts = np.zeros((LENGTH, SIZE, SIZE))
    for text in run.texts.values():
        for position, (token, following) in enumerate(pairwise([PROMPT[-1], *text])):
            counts[position, token, following] += 1
    return [p_value(counts[0], law), p_value(counts[1:].sum(axis=0), law), p_value(counts.sum(axis=0), law)]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="plain"),
        pytest.param({"temperature": 0.7}, id="cooler"),
        pytest.param({"temperature": 1.5}, id="hotter"),
        pytest.param({"top_k": 5}, id="top-k"),
        pytest.param({"top_p": 0.6}, id="top-p"),
        pytest.param({"temperature": 0.8, "top_k": 8, "top_p": 0.8}, id="all-three"),
    ],
)
def test_drafting_keeps_the_processed_distribution(markov: Path, settings: dict[str, float]) -> None:
    run = sample(markov, 3, **settings)

    assert 0.1 * run.drafted < run.accepted < 0.8 * run.drafted
    assert min(p_values(run, processed(**settings))) > 1e-3  # type: ignore[arg-type]


def test_a_draft_is_accepted_with_the_probability_of_the_target(markov: Path) -> None:
    core = a_markov_core(markov)
    outcomes: dict[float, list[int]] = {}
    for seed in range(REQUESTS):
        core.add(Request(str(seed), PROMPT, Sampling(max_tokens=3, seed=seed)))
    texts: dict[str, list[int]] = {}

    while step := core.step(1):
        for sequence in step.sequences:
            text = texts.setdefault(sequence.request_id, [*PROMPT])
            if sequence.drafted:
                draft = NgramProposer(1, 3).look_up(np.array(text), 1)[0]
                outcomes.setdefault(MATRIX[text[-1], draft], []).append(sequence.accepted)
            text.extend(sequence.tokens)
            if len(text) >= len(PROMPT) + 3:
                core.remove(sequence.request_id)

    wanted = sum(probability * len(accepted) for probability, accepted in outcomes.items())
    spread = sum(
        probability * (1 - probability) * len(accepted) for probability, accepted in outcomes.items()
    )
    assert abs(sum(map(sum, outcomes.values())) - wanted) < 4 * spread**0.5


def accept_what_equals_the_argmax(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
    """Fault: at a temperature, drafts are judged as if greedy."""
    best = logits.argmax(dim=-1).numpy()
    verdicts, begin = [], 0
    for row, honest in zip(rows, verify(logits, rows), strict=True):
        accepted = 0
        while accepted < row.drafts and best[begin + accepted] == row.tokens[1 + accepted]:
            accepted += 1
        begin += row.drafts + 1
        tokens = (*row.tokens[1 : 1 + accepted].tolist(), honest.tokens[min(accepted, honest.accepted)])
        verdicts.append(Verdict(tokens, accepted))
    return verdicts


def draw_again_from_the_whole_after_a_rejection(
    logits: torch.Tensor, rows: tuple[Rows, ...]
) -> list[Verdict]:
    """Fault: the rejected draft is not taken out of the distribution."""
    verdicts, begin = [], 0
    for row, honest in zip(rows, verify(logits, rows), strict=True):
        tokens = honest.tokens
        if honest.accepted < row.drafts:
            line = logits[begin + honest.accepted].softmax(dim=-1).double().numpy()
            stream = np.random.default_rng([int(row.sequence.id), len(row.sequence)])
            tokens = (*tokens[:-1], int(stream.choice(SIZE, p=line / line.sum())))
        begin += row.drafts + 1
        verdicts.append(Verdict(tokens, honest.accepted))
    return verdicts


def take_the_bonus_from_the_line_before(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
    """Fault: off by one line, which only a fully accepted draft shows."""
    moved, begin = logits.clone(), 0
    for row in rows:
        if row.drafts:
            moved[begin + row.drafts] = logits[begin + row.drafts - 1]
        begin += row.drafts + 1
    return verify(moved, rows)


@pytest.mark.parametrize(
    "fault",
    [
        accept_what_equals_the_argmax,
        draw_again_from_the_whole_after_a_rejection,
        take_the_bonus_from_the_line_before,
    ],
)
def test_a_planted_fault_is_found(
    markov: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., list[Verdict]]
) -> None:
    monkeypatch.setattr(core_module, "verify", fault)

    run = sample(markov, 3)

    assert p_values(run, processed())[1] < 1e-9


def test_a_seed_gives_the_same_text_alone_in_a_crowd_and_at_every_depth(llama: Path) -> None:
    core = EngineCore(
        load_model(llama, torch.float32),
        NgramProposer(1, 3),
        max_model_len=128,
        max_num_seqs=8,
        max_depth=4,
        kv_cache_mib=1,
    )
    seeded = Request("seeded", (5, 9, 5, 9, 5), Sampling(max_tokens=40, temperature=0.9, top_p=0.9, seed=11))
    crowd = [Request(f"c{n}", (n + 3,) * 20, Sampling(max_tokens=60, seed=n)) for n in range(5)]

    alone = drive(core, [seeded], 0)
    crowded = drive(core, [*crowd, seeded], lambda number: number % 5)

    assert crowded.preempted > 0
    assert crowded.texts["seeded"] == alone.texts["seeded"]


def test_without_a_seed_two_texts_differ(markov: Path) -> None:
    requests = [Request(name, PROMPT, Sampling(max_tokens=20)) for name in ("a", "b")]

    run = drive(a_markov_core(markov), requests, 2)

    assert run.texts["a"] != run.texts["b"]
