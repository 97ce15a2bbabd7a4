"""The tokenizer without files."""

from hypothesis import given, settings
from hypothesis import strategies as st

from specfleet_simulated.tokenizer import SimulatedTokenizer

TOKENIZER = SimulatedTokenizer()


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_any_text_comes_back_as_it_was(text: str) -> None:
    tokens = TOKENIZER.encode(text)

    assert TOKENIZER.decode(tokens) == text
    assert all(0 <= token < TOKENIZER.vocabulary_size for token in tokens)


def test_a_common_word_is_one_token_with_its_space() -> None:
    assert len(TOKENIZER.encode(" the people")) == 2


def test_the_end_of_sequence_has_no_text() -> None:
    assert TOKENIZER.decode(sorted(TOKENIZER.eos_ids)) == ""


def test_a_conversation_ends_with_the_assistants_turn() -> None:
    tokens = TOKENIZER.chat([{"role": "user", "content": "hi"}])

    assert TOKENIZER.decode(tokens) == "user: hi\nassistant:"
