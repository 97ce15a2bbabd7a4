"""What is kept of a step when a request ends within it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.serving.byte_tokenizer import ByteTokenizer

from specfleet_serving.active import Active
from specfleet_serving.core import Request, Sampling, SequenceStep, TokenLogprob
from specfleet_serving.text import Assembler


@st.composite
def steps(draw: st.DrawFn) -> list[SequenceStep]:
    """Steps as a core may give them: each has one token beside the accepted drafts."""
    given_steps = []
    for _ in range(draw(st.integers(1, 6))):
        drafted = draw(st.integers(0, 5))
        accepted = draw(st.integers(0, drafted))
        tokens = tuple(draw(st.binary(min_size=accepted + 1, max_size=accepted + 1)))
        logprobs = tuple(TokenLogprob(-1.0) for _ in tokens)
        given_steps.append(SequenceStep("one", tokens, drafted, accepted, logprobs=logprobs))
    return given_steps


@pytest.mark.fault("sglang#11572", "sglang#39826", "Blaizzy/mlx-vlm#2324", "vllm#47616")
@given(
    given_steps=steps(), max_tokens=st.integers(1, 20), ends=st.frozensets(st.integers(0, 255), max_size=99)
)
def test_no_part_of_what_a_user_got_is_larger_than_the_whole(
    given_steps: list[SequenceStep], max_tokens: int, ends: frozenset[int]
) -> None:
    sampling = Sampling(max_tokens, ends=ends)
    active = Active(Request("one", (1,), sampling), Assembler(ByteTokenizer(), sampling), 0.0)
    outputs = []

    for now, step in enumerate(given_steps):
        delivered, output = active.take(step, float(now))
        outputs.append(output)
        assert 0 <= output.accepted <= min(output.drafted, len(output.tokens))
        assert (delivered.tokens, delivered.drafted, delivered.accepted) == (
            len(output.tokens),
            output.drafted,
            output.accepted,
        )
        assert len(output.logprobs) == len(output.tokens)
        if output.finish:
            break

    assert sum(len(output.tokens) for output in outputs) == active.times().tokens <= max_tokens
