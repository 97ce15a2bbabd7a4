"""Where an answer ends, and what text may leave before it does."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.serving.byte_tokenizer import EOS, ByteTokenizer

from specfleet_serving.core import Sampling
from specfleet_serving.text import Assembler, Piece


def an_assembler(
    max_tokens: int = 100,
    stop: tuple[str, ...] = (),
    ends: frozenset[int] = frozenset({EOS}),
    min_tokens: int = 0,
) -> Assembler:
    sampling = Sampling(max_tokens=max_tokens, stop=stop, ends=ends, min_tokens=min_tokens)
    return Assembler(ByteTokenizer(), sampling)


def tokens_of(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def in_runs(tokens: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    """Cut tokens into runs of the given sizes, the rest into runs of one."""
    runs, at = [], 0
    for size in [*sizes, *[1] * len(tokens)]:
        if at < len(tokens):
            runs.append(tokens[at : at + size])
            at += size
    return runs


def taken(assembler: Assembler, runs: Sequence[Sequence[int]]) -> Piece:
    """Push runs until the end and join what came out."""
    tokens: tuple[int, ...] = ()
    text = ""
    for run in runs:
        piece = assembler.push(run)
        tokens, text = tokens + piece.tokens, text + piece.text
        if piece.finish:
            return Piece(tokens, text, piece.finish)
    return Piece(tokens, text, None)


@pytest.mark.fault("sglang#31599", "transformers#47912")
@pytest.mark.parametrize(
    ("text", "max_tokens", "expected"),
    [
        pytest.param("ab|cd", 100, Piece(tokens_of("ab|"), "ab", "stop"), id="stop-first"),
        pytest.param("ab|cd", 2, Piece(tokens_of("ab"), "ab", "length"), id="cap-first"),
        pytest.param("ab|cd", 3, Piece(tokens_of("ab|"), "ab", "stop"), id="stop-at-the-cap"),
        pytest.param(
            "ab\N{EM DASH}c",
            100,
            Piece((*tokens_of("ab\N{EM DASH}c"), EOS), "ab\N{EM DASH}c", "stop"),
            id="eos",
        ),
    ],
)
def test_the_earliest_end_wins_inside_one_accepted_run(text: str, max_tokens: int, expected: Piece) -> None:
    run = (*tokens_of(text), EOS, *tokens_of("never|"))

    assert an_assembler(max_tokens, stop=("|",)).push(run) == expected


def test_an_end_of_sequence_that_is_ignored_is_a_token_without_text() -> None:
    piece = an_assembler(max_tokens=3, ends=frozenset()).push((97, EOS, 98, 99))

    assert piece == Piece((97, EOS, 98), "ab", "length")


@pytest.mark.parametrize(
    ("min_tokens", "expected"),
    [
        pytest.param(2, Piece(tokens_of("ab|"), "ab", "stop"), id="stop-after-the-minimum"),
        pytest.param(3, Piece(tokens_of("ab|c|"), "ab|c", "stop"), id="stop-at-the-minimum-is-text"),
        pytest.param(
            5, Piece((*tokens_of("ab|c|"), EOS), "ab|c|", "stop"), id="only-the-end-comes-late-enough"
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 6])
def test_nothing_ends_an_answer_within_its_smallest_length(
    min_tokens: int, expected: Piece, size: int
) -> None:
    run = (*tokens_of("ab|c|"), EOS)

    got = taken(an_assembler(stop=("|",), min_tokens=min_tokens), in_runs(run, [size] * 6))

    assert got == expected


def test_the_cap_wins_over_the_smallest_length() -> None:
    assert an_assembler(max_tokens=2, min_tokens=2).push(tokens_of("abc")).finish == "length"


@pytest.mark.fault("sglang#23802")
def test_a_stop_string_over_several_steps_is_found_and_never_shown() -> None:
    assembler = an_assembler(stop=("END",))

    shown = [assembler.push(tokens_of(part)).text for part in ("say E", "N", "D now")]

    assert shown == ["say ", "", ""]


def test_a_beginning_of_a_stop_string_is_shown_once_it_is_none() -> None:
    assembler = an_assembler(stop=("END",))

    shown = [assembler.push(tokens_of(part)).text for part in ("E", "N", "T")]

    assert shown == ["", "", "ENT"]


def test_half_a_character_is_held_back_until_it_is_whole() -> None:
    euro = tokens_of("€")
    assembler = an_assembler()

    shown = [assembler.push((byte,)).text for byte in euro]

    assert shown == ["", "", "€"]


def test_half_a_character_at_the_end_is_shown_as_unreadable() -> None:
    piece = an_assembler(max_tokens=2).push(tokens_of("€"))

    assert piece == Piece(tokens_of("€")[:2], "\ufffd", "length")


def test_bytes_that_never_become_text_do_not_hold_it_back_for_ever() -> None:
    assembler = an_assembler()

    assert taken(assembler, [(0xFF,)] * 50).text


def _model(text: str, max_tokens: int, stops: Sequence[str]) -> tuple[int, str, str | None]:
    """The rule in one place, on whole text: the first prefix of the tokens that ends the answer."""
    data = text.encode()
    for count in range(1, len(data) + 1):
        seen = data[:count].decode(errors="ignore")
        found = [seen.find(stop) for stop in stops if stop in seen]
        if found:
            return count, seen[: min(found)], "stop"
        if count == max_tokens:
            return count, data[:count].decode(errors="replace"), "length"
    return len(data), text, None


@pytest.mark.fault("sglang#23802", "vllm#47616")
@settings(deadline=None)
@given(
    text=st.text(alphabet="abé€😀", max_size=12),
    sizes=st.lists(st.integers(1, 6), max_size=6),
    max_tokens=st.integers(1, 30),
    stops=st.lists(st.text(alphabet="abé€", min_size=1, max_size=4), max_size=3),
)
def test_runs_of_any_size_end_where_single_tokens_would(
    text: str, sizes: list[int], max_tokens: int, stops: list[str]
) -> None:
    got = taken(an_assembler(max_tokens, tuple(stops)), in_runs(tokens_of(text), sizes))

    count, shown, finish = _model(text, max_tokens, stops)
    assert (len(got.tokens), got.finish) == (count, finish)
    assert got.text == shown if finish else shown.startswith(got.text)
