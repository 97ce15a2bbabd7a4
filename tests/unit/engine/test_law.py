"""Whatever drafts, the text follows the target's processed distribution: chi-squared against closed forms."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from tests.unit.engine import laws
from tests.unit.engine.laws import (
    DRAWN,
    LENGTH,
    ONE_HOT,
    PROMPT,
    PROPOSER,
    TARGET,
    Drafter,
    Law,
    counts,
    distance_from_uniform,
    first,
    later,
    p_value,
)

from specfleet_engine import verify as verify_module
from specfleet_engine.batch import Rows
from specfleet_engine.verify import Verdict, verify
from specfleet_serving.core import Sampling

TEXTS = 500
BLOCKS = 5

SETTINGS = {
    **laws.SETTINGS,
    "bias": {"logit_bias": ((1, 1.5), (3, -2.0))},
    "min-tokens": {"min_tokens": 2, "ends": frozenset({0, 3})},
    "all": {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 4,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "repetition_penalty": 1.3,
    },
}
DRAFTERS = {"one-hot": ONE_HOT, "drawn": DRAWN}

Settings = dict[str, object]


def sampling_with(settings: Settings) -> Callable[[int], Sampling]:
    return lambda seed: Sampling(max_tokens=LENGTH, seed=seed, **settings)  # type: ignore[arg-type]


def p_values_of(settings: Settings, drafter: Drafter, first_seed: int) -> list[float]:
    """Three for each block of seeds: the first token, the later ones, all of them together."""
    law = laws.text_law(sampling_with(settings)(0))
    found = []
    for block in range(BLOCKS):
        seeds = range(first_seed + block * TEXTS, first_seed + (block + 1) * TEXTS)
        seen, _ = counts(sampling_with(settings), drafter, seeds)
        found += [p_value(first(seen), first(law)), p_value(later(seen), later(law)), p_value(seen, law)]
    return found


@pytest.fixture(scope="module")
def p_values() -> dict[tuple[str, str], list[float]]:
    """Of every case; each has seeds of its own, so that all are independent."""
    torch.set_num_threads(1)
    cases = product(SETTINGS, DRAFTERS)
    return {
        (name, drafter): p_values_of(SETTINGS[name], DRAFTERS[drafter], number * BLOCKS * TEXTS)
        for number, (name, drafter) in enumerate(cases)
    }


@pytest.mark.fault("vllm#10198", "z-lab/dflash#74", "sglang#31214", "vllm#18902")
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_text_follows_the_processed_distribution(
    p_values: dict[tuple[str, str], list[float]], name: str, drafter: str
) -> None:
    # 360 values in all: one below 1e-5 has a chance of 0.4 %.
    assert min(p_values[name, drafter]) > 1e-5


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("part", range(3), ids=["first", "later", "all"])
def test_p_values_are_uniform_over_seeds(
    p_values: dict[tuple[str, str], list[float]], part: int, drafter: str
) -> None:
    values = [value for (_, other), found in p_values.items() if other == drafter for value in found[part::3]]

    assert distance_from_uniform(values) < 1.95


@pytest.mark.parametrize(
    ("drafter", "expected"),
    [
        # Averaged over the texts that T = 1 brings: the smaller of both chains' probabilities for a drawn
        # draft, the target's of the proposer's likeliest token for a one-hot one.
        pytest.param(DRAWN, lambda p, q: np.minimum(p, q).sum(), id="drawn"),
        pytest.param(ONE_HOT, lambda p, q: p[q.argmax()], id="one-hot"),
    ],
)
def test_a_first_draft_is_accepted_as_often_as_the_chains_agree(
    drafter: Drafter, expected: Callable[[Law, Law], float]
) -> None:
    one = replace(drafter, depth=1)
    accepted = 0

    def judge(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
        nonlocal accepted
        verdicts = verify(logits, rows)
        accepted += sum(
            verdict.accepted
            for row, verdict in zip(rows, verdicts, strict=True)
            if len(row.sequence) == row.sequence.prompt_length
        )
        return verdicts

    counts(sampling_with({}), one, range(4000), judge)

    chance = expected(TARGET[PROMPT[-1]], PROPOSER[PROMPT[-1]])
    assert abs(accepted / 4000 - chance) < 4 * (chance * (1 - chance) / 4000) ** 0.5


def no_residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Fault: a rejected draft is replaced from the whole of p."""
    return p


def with_the_line_before_for_the_bonus(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
    """Fault: off by one line, which only a fully accepted draft shows."""
    moved, end = logits.clone(), 0
    for row in rows:
        end += row.drafts + 1
        if row.drafts:
            moved[end - 1] = logits[end - 2]
    return verify(moved, rows)


PLANTED = {
    "honest": (DRAWN, verify_module.residual, verify),
    "residual": (DRAWN, no_residual, verify),
    "draft-probabilities": (replace(DRAWN, told=lambda law: law.square()), verify_module.residual, verify),
    "softmax-for-an-argmax": (replace(DRAWN, drawn=False), verify_module.residual, verify),
    "bonus": (DRAWN, verify_module.residual, with_the_line_before_for_the_bonus),
}


@pytest.mark.fault("vllm#16899", "openvinotoolkit/openvino.genai#4190")
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    drafter, residual, judge = PLANTED[fault]
    monkeypatch.setattr(verify_module, "residual", residual)

    seen, _ = counts(sampling_with({}), drafter, range(6000), judge)

    found = p_value(seen, laws.text_law(sampling_with({})(0)))
    assert found > 1e-4 if fault == "honest" else found < 1e-9


def test_a_draft_from_the_target_itself_is_always_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "PROPOSER", TARGET)

    seen, accepted = counts(sampling_with({}), DRAWN, range(2000))

    # The two laws differ by fp32 rounding only, 6e-8: the residual is empty or noise.
    assert accepted == 1.0
    assert p_value(seen, laws.text_law(sampling_with({})(0))) > 1e-4


def test_where_rounding_leaves_no_residual_the_target_itself_is_drawn_from() -> None:
    p = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).double()

    rest = verify_module.residual(p, torch.tensor([[0.25, 0.75], [0.75, 0.25]]).double())

    assert rest.tolist() == [[0.25, 0.75], [0.0, 0.25]]


@pytest.mark.fault("vllm#6038")
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_seed_gives_the_same_text_alone_and_in_a_crowd(drafter: str) -> None:
    drafts = DRAFTERS[drafter]
    alone, _ = counts(sampling_with({}), drafts, range(7, 8))
    others, _ = counts(sampling_with({}), drafts, range(8, 41))

    crowd, _ = counts(sampling_with({}), drafts, range(7, 41))

    assert np.array_equal(crowd, others + alone)


@pytest.mark.fault("vllm#6038")
def test_with_one_hot_drafts_a_seed_gives_the_same_text_at_every_depth() -> None:
    texts = [counts(sampling_with({}), replace(ONE_HOT, depth=depth), range(200))[0] for depth in (0, 1, 2)]

    assert np.array_equal(texts[0], texts[1])
    assert np.array_equal(texts[0], texts[2])
