"""The n-gram proposer against a slow look-up that tries every earlier place, one by one."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specfleet_engine.proposers.ngram import NgramProposer


def propose(tokens: list[int], depth: int, min_match: int = 1, max_match: int = 5) -> list[int]:
    return NgramProposer(min_match, max_match).look_up(np.array(tokens, dtype=np.int64), depth).tolist()


def look_up_slowly(tokens: list[int], depth: int, min_match: int, max_match: int) -> list[int]:
    """The rule of checkpoints.md, section 6A, written down as it is said."""
    for length in range(max_match, min_match - 1, -1):
        suffix = tokens[-length:]
        after = [
            tokens[begin + length :]
            for begin in range(len(tokens) - length)
            if tokens[begin : begin + length] == suffix
        ]
        enough = [follow for follow in after if len(follow) >= depth]
        if enough:
            return enough[-1][:depth]
        if after:
            return max(after, key=len)
    return []


@settings(max_examples=300, deadline=None)
@given(
    tokens=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    depth=st.integers(1, 6),
    matches=st.tuples(st.integers(1, 5), st.integers(1, 5)).map(sorted),
)
def test_the_draft_is_the_one_that_a_search_through_all_places_finds(
    tokens: list[int], depth: int, matches: list[int]
) -> None:
    assert propose(tokens, depth, *matches) == look_up_slowly(tokens, depth, *matches)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        pytest.param([7, 1, 2, 9, 5, 1, 2], [9, 5, 1], id="what-followed-the-last-two-tokens"),
        pytest.param([1, 2, 8, 3, 2, 9, 1, 2], [8, 3, 2], id="the-longest-match-before-the-latest"),
        pytest.param([4] * 9, [4, 4, 4], id="a-loop-of-one-token-drafts-the-full-depth"),
        pytest.param([1, 2, 6, 1, 2, 7, 0, 0, 1, 2], [7, 0, 0], id="the-latest-of-equally-long-matches"),
        pytest.param([1, 2, 3, 4], [], id="nothing-repeats"),
        pytest.param([5], [], id="a-single-token"),
    ],
)
def test_a_draft_continues_an_earlier_copy_of_the_end(tokens: list[int], expected: list[int]) -> None:
    assert propose(tokens, depth=3) == expected


def test_a_match_shorter_than_the_minimum_drafts_nothing() -> None:
    assert propose([1, 2, 3, 9, 3], depth=2, min_match=2) == []


def test_depth_zero_drafts_nothing() -> None:
    assert propose([1, 1, 1, 1], depth=0) == []


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(ValueError, match="1 <= min <= max, got 3 and 2"):
        NgramProposer(3, 2)


def test_a_look_up_in_a_full_context_takes_less_than_a_millisecond() -> None:
    tokens = np.random.default_rng(1).integers(0, 50, size=8192)
    proposer = NgramProposer(2, 5)

    begin = time.process_time()
    for _ in range(100):
        proposer.look_up(tokens, 5)

    assert (time.process_time() - begin) / 100 < 1e-3
