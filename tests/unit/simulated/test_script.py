"""What the simulated model says, and how well a draft foresees it."""

import pytest

from specfleet_serving.core import Request, Sampling
from specfleet_simulated.script import FULL_STOP, Acceptance, Script, repeated_share
from specfleet_simulated.tokenizer import END_OF_SEQUENCE, SimulatedTokenizer

TOKENIZER = SimulatedTokenizer()
ACCEPTANCE = Acceptance(free=0.2, repetitive=0.9, min_match=2)


def a_script(prompt: str = "tell me", request_id: str = "id", **sampling: object) -> Script:
    fields = {"max_tokens": 2000, "temperature": 0.0} | sampling
    request = Request(request_id, tuple(TOKENIZER.encode(prompt)), Sampling(**fields))  # type: ignore[arg-type]
    return Script(request, TOKENIZER, ACCEPTANCE)


def tokens(script: Script, count: int = 40) -> list[int]:
    return [script.token(position) for position in range(count)]


def test_greedy_text_depends_on_the_prompt_only() -> None:
    assert tokens(a_script(request_id="one")) == tokens(a_script(request_id="two"))
    assert tokens(a_script("tell me")) != tokens(a_script("tell you"))


def test_a_seed_repeats_a_sampled_text_and_no_seed_does_not() -> None:
    seeded = [tokens(a_script(request_id=one, temperature=1.0, seed=5)) for one in "ab"]
    free = [tokens(a_script(request_id=one, temperature=1.0)) for one in "ab"]

    assert seeded[0] == seeded[1]
    assert free[0] != free[1]


def test_a_text_ends_by_itself_unless_its_end_is_ignored() -> None:
    assert END_OF_SEQUENCE in tokens(a_script(ends=frozenset({END_OF_SEQUENCE})), 513)
    assert END_OF_SEQUENCE not in tokens(a_script(), 513)


def test_no_token_that_would_end_the_answer_comes_within_its_smallest_length() -> None:
    ends = frozenset({END_OF_SEQUENCE, FULL_STOP})

    text = tokens(a_script(ends=ends, min_tokens=600), 601)

    # A full stop is the last token of each sentence of 12.
    assert next(at for at, token in enumerate(text) if token in ends) == 600


@pytest.mark.parametrize(
    ("text", "share"),
    [
        pytest.param("", 0.0, id="empty"),
        pytest.param("one two", 0.0, id="too-short"),
        pytest.param("a b c d e", 0.0, id="nothing-repeated"),
        # abc bca cab abc bca cab abc: 7 runs, 3 different ones.
        pytest.param("a b c a b c a b c", 4 / 7, id="a-phrase-three-times"),
    ],
)
def test_repetition_is_the_share_of_runs_that_occurred_before(text: str, share: float) -> None:
    assert repeated_share(text, 3) == pytest.approx(share)


def test_acceptance_lies_between_free_and_repetitive_text() -> None:
    free = ACCEPTANCE.chance("every word of this line is another one")
    mixed = ACCEPTANCE.chance("a b c a b c a b c")
    repetitive = ACCEPTANCE.chance("la " * 200)

    assert free == 0.2
    assert mixed == pytest.approx(0.2 + 0.7 * 4 / 7)
    assert repetitive == pytest.approx(0.9, abs=0.01)


def test_drafts_are_accepted_with_the_chance_of_the_prompt() -> None:
    script = a_script("la " * 200)

    accepted = [script.accepted(3) for _ in range(4000)]

    # Survival of position i is chance^i; 4000 draws have a standard error below 0.8 %.
    for position in (1, 2, 3):
        share = sum(count >= position for count in accepted) / len(accepted)
        assert share == pytest.approx(0.8966**position, abs=0.03)


def test_the_same_request_draws_the_same_acceptance() -> None:
    assert [a_script().accepted(5) for _ in range(3)] == [a_script().accepted(5)] * 3
