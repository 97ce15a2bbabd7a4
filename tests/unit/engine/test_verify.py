"""Verification on logits written by hand."""

import math

import numpy as np
import pytest
import torch

from specfleet_engine.batch import Rows
from specfleet_engine.sequence import Sequence
from specfleet_engine.stream import RandomStream
from specfleet_engine.verify import Verdict, verify
from specfleet_serving.core import Request, Sampling, TokenLogprob

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


@pytest.mark.fault("vllm#18783")
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(50, logprobs=1)])
def test_logits_that_are_no_numbers_fail_their_sequence_and_no_other(sampling: Sampling) -> None:
    logits = logits_for(1, 2, 3)
    logits[0, 3] = torch.nan

    broken, unharmed = verify(logits, (rows_with([1], sampling), rows_with([])))

    assert (broken.failed, broken.tokens) == (True, ())
    assert unharmed == Verdict((3,), 0)


def test_logits_after_a_draft_that_was_rejected_fail_nobody() -> None:
    logits = logits_for(1, 2, 3)
    # A draft whose own state is no number, as that of a token with a broken embedding.
    logits[1:] = torch.nan

    assert verify(logits, (rows_with([5, 5]),)) == [Verdict((1,), 0)]


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


def test_negative_seeds_are_streams_of_their_own() -> None:
    assert RandomStream(-7).peek(1).tolist() == RandomStream(-7).peek(1).tolist()
    assert RandomStream(-7).peek(1).tolist() != RandomStream(7).peek(1).tolist()


def greedy(**settings: object) -> Sampling:
    return Sampling(max_tokens=50, temperature=0.0, **settings)  # type: ignore[arg-type]


LINE = [2.0, 1.9, 1.5, -1.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # The prompt is 1, 2, 3; nothing of it is output.
        pytest.param({}, 0, id="nothing-set"),
        pytest.param({"logit_bias": ((2, 0.6),)}, 2, id="bias"),
        pytest.param({"logit_bias": ((0, -100.0), (1, -100.0))}, 2, id="bias-against-two"),
        pytest.param({"min_tokens": 1, "ends": frozenset({0})}, 1, id="an-end-that-comes-too-early"),
        pytest.param({"ends": frozenset({0})}, 0, id="an-end-in-time"),
        pytest.param({"presence_penalty": 2.0, "frequency_penalty": 2.0}, 0, id="the-prompt-is-no-output"),
        pytest.param({"repetition_penalty": 0.9}, 1, id="repetition-counts-the-prompt: 1.9 / 0.9 > 2"),
    ],
)
def test_a_request_changes_its_own_logits(settings: dict[str, object], expected: int) -> None:
    rows = (rows_with([], greedy(**settings)), rows_with([]))

    verdicts = verify(torch.tensor([LINE, LINE]), rows)

    assert [verdict.tokens for verdict in verdicts] == [(expected,), (0,)]


@pytest.mark.fault("vllm#18902", "sglang#33643")
@pytest.mark.parametrize(
    ("settings", "accepted"),
    [
        # Token 0 leads token 1 by 0.1, and token 2 by 0.5.
        pytest.param({"presence_penalty": 0.2}, 1, id="presence: 0 once, then 1"),
        pytest.param({"frequency_penalty": 0.06}, 2, id="frequency: 0 twice, then 1"),
        pytest.param({"frequency_penalty": 0.01}, 3, id="frequency: too small for three"),
        pytest.param({"min_tokens": 2, "ends": frozenset({1})}, 3, id="nothing-penalised"),
    ],
)
def test_drafts_before_a_draft_count_as_output(settings: dict[str, object], accepted: int) -> None:
    verdict = verify(torch.tensor([LINE] * 4), (rows_with([0, 0, 0], greedy(**settings)),))[0]

    assert verdict.accepted == accepted
    assert verdict.tokens == (0,) * accepted + ((0,) if accepted == 3 else (1,))


@pytest.mark.fault("sglang#33643")
def test_the_smallest_length_counts_tokens_and_not_steps() -> None:
    sampling = greedy(min_tokens=2, ends=frozenset({0}))

    verdict = verify(torch.tensor([LINE] * 4), (rows_with([1, 1, 0], sampling),))[0]

    assert verdict == Verdict((1, 1, 0, 0), 3)


@pytest.mark.fault("vllm#30846")
def test_logprobs_are_the_targets_own_whatever_the_request_changes() -> None:
    line = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    sampling = greedy(logprobs=2, logit_bias=((3, 50.0),), repetition_penalty=3.0)

    verdict, other = verify(torch.cat([line, line]), (rows_with([], sampling), rows_with([])))

    assert verdict.tokens == (3,)
    assert verdict.logprobs[0].logprob == pytest.approx(math.log(0.05))
    assert [token for token, _ in verdict.logprobs[0].top] == [0, 1]
    assert [value for _, value in verdict.logprobs[0].top] == pytest.approx([math.log(0.5), math.log(0.3)])
    assert other.logprobs == ()


def test_each_request_gets_as_many_likeliest_tokens_as_it_asked_for() -> None:
    line = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    rows = tuple(rows_with([], greedy(logprobs=number)) for number in (0, 2, 20))

    shown = [verdict.logprobs[0] for verdict in verify(line.expand(3, -1), rows)]

    assert [len(one.top) for one in shown] == [0, 2, 4]
    assert isinstance(shown[0], TokenLogprob)


@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param(Sampling(50, temperature=1e-320), id="a-temperature-too-low-to-divide-by"),
        pytest.param(Sampling(50, temperature=1e-4), id="a-very-low-temperature"),
        pytest.param(Sampling(50, top_k=1), id="one-candidate"),
        pytest.param(Sampling(50, min_p=1.0), id="nothing-but-the-likeliest"),
        pytest.param(Sampling(50, temperature=0.01, top_k=10**30), id="a-top-k-beyond-every-integer"),
    ],
)
def test_extreme_settings_leave_the_likeliest_token(sampling: Sampling) -> None:
    assert verify(torch.tensor([LINE]), (rows_with([], sampling),)) == [Verdict((0,), 0)]
