"""Verification on logits written by hand."""

import numpy as np
import pytest
import torch

from specfleet_engine.batch import Rows
from specfleet_engine.sequence import Sequence
from specfleet_engine.stream import RandomStream
from specfleet_engine.verify import Verdict, verify
from specfleet_serving.core import Request, Sampling

VOCABULARY = 8
GREEDY = Sampling(max_tokens=50, temperature=0.0)


def rows_with(drafts: list[int], sampling: Sampling = GREEDY) -> Rows:
    sequence = Sequence(Request("r", (1, 2, 3), sampling), 100)
    return Rows(sequence, 2, np.array([3, *drafts], dtype=np.int64), len(drafts))


def logits_for(*best: int) -> torch.Tensor:
    """One line for each token, which has the highest logit there."""
    return torch.nn.functional.one_hot(torch.tensor(best), VOCABULARY).float() * 5


@pytest.mark.parametrize(
    ("drafts", "best", "tokens", "accepted"),
    [
        pytest.param([4, 5], [4, 5, 6], (4, 5, 6), 2, id="all-agree-and-one-more"),
        pytest.param([4, 5], [4, 7, 6], (4, 7), 1, id="the-target's-own-in-place-of-the-first-wrong-one"),
        pytest.param([4, 5], [7, 5, 6], (7,), 0, id="nothing-after-a-wrong-one-counts"),
        pytest.param([], [3], (3,), 0, id="no-draft"),
    ],
)
def test_greedy_accepts_drafts_while_they_equal_the_argmax(
    drafts: list[int], best: list[int], tokens: tuple[int, ...], accepted: int
) -> None:
    assert verify(logits_for(*best), (rows_with(drafts),)) == [Verdict(tokens, accepted)]


def test_sequences_of_different_depth_are_judged_by_their_own_lines() -> None:
    logits = logits_for(1, 2, 3, 4, 5, 6)

    verdicts = verify(logits, (rows_with([]), rows_with([2]), rows_with([4, 0])))

    assert verdicts == [Verdict((1,), 0), Verdict((2, 3), 1), Verdict((4, 5), 1)]


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(50, logprobs=1)])
def test_logits_that_are_no_numbers_fail_their_sequence_and_no_other(sampling: Sampling) -> None:
    logits = logits_for(1, 2, 3)
    logits[1, 3] = torch.nan

    broken, unharmed = verify(logits, (rows_with([1], sampling), rows_with([])))

    assert (broken.failed, broken.tokens) == (True, ())
    assert unharmed == Verdict((3,), 0)


@pytest.mark.parametrize(
    ("sampling", "allowed"),
    [
        pytest.param(Sampling(50, top_k=2), {0, 1}, id="top-k"),
        pytest.param(Sampling(50, top_p=0.7), {0, 1}, id="top-p-reached-by-two"),
        pytest.param(Sampling(50, top_p=0.0), {0}, id="top-p-keeps-at-least-one"),
        pytest.param(Sampling(50, top_p=0.45, top_k=2), {0}, id="top-p-within-top-k"),
        pytest.param(Sampling(50, top_k=100), {0, 1, 2, 3}, id="top-k-beyond-the-vocabulary"),
    ],
)
def test_only_tokens_of_the_processed_distribution_are_drawn(sampling: Sampling, allowed: set[int]) -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    rows = tuple(rows_with([], sampling) for _ in range(400))

    drawn = {verdict.tokens[0] for verdict in verify(logits.expand(400, -1), rows)}

    assert drawn == allowed


def test_top_p_beyond_the_sorted_candidates_keeps_the_whole_nucleus() -> None:
    size = 4096
    logits = torch.zeros(1, size)
    logits[0, 0] = 1.0
    rows = tuple(rows_with([], Sampling(50, top_p=0.5, seed=seed)) for seed in range(300))

    drawn = {verdict.tokens[0] for verdict in verify(logits.expand(300, -1), rows)}

    assert len(drawn) > 200


def test_looking_ahead_uses_no_random_number_up() -> None:
    stream, same = RandomStream(7), RandomStream(7)

    stream.peek(50)
    stream.use(2)

    assert stream.peek(2).tolist() == same.peek(4)[2:].tolist()
