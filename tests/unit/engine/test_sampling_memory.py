"""What judging a full batch takes is bounded and known beforehand; its portions change nothing."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from specfleet_engine import verify as verify_module
from specfleet_engine.adjust import EDIT_BYTES, adjust
from specfleet_engine.batch import Rows
from specfleet_engine.memory import largest_step_bytes
from specfleet_engine.proposers import drawing
from specfleet_engine.proposers.drawing import Drawing, Vocabulary, draw_next
from specfleet_engine.sampling import LINE_BYTES_PER_TOKEN, lines_at_once
from specfleet_engine.sequence import Sequence
from specfleet_engine.verify import verify
from specfleet_serving.core import Limits, Request, Sampling

VOCABULARY = 20_000
PROMPT = 300
# Everything that a request may ask for at once, on a law so flat that nothing of it saves work.
GREEDIEST = Sampling(
    max_tokens=50,
    top_p=0.9999,
    top_k=VOCABULARY - 1,
    min_p=1e-6,
    repetition_penalty=1.1,
    frequency_penalty=0.5,
    presence_penalty=0.5,
    logit_bias=tuple((token, 0.1) for token in range(300)),
    seed=3,
    logprobs=20,
)
CPU = torch.device("cpu")


def a_sequence(number: int, sampling: Sampling, vocabulary: int = VOCABULARY) -> Sequence:
    prompt = np.random.default_rng(number).permutation(vocabulary)[:PROMPT]
    return Sequence(Request(f"r{number}", tuple(prompt.tolist()), sampling), PROMPT + 50)


def rows_of(number: int, drafts: int, sampling: Sampling, *, drawn: bool, vocabulary: int) -> Rows:
    sequence = a_sequence(number, sampling, vocabulary)
    guesses = np.arange(drafts) + number
    law = torch.rand(drafts, vocabulary) if drawn and drafts else None
    tokens = np.concatenate([sequence.tokens[-1:], guesses])
    return Rows(
        sequence, PROMPT - 1, tokens, drafts, None if law is None else law / law.sum(-1, keepdim=True)
    )


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that torch had allocated at one time for ``work``."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]  # type: ignore[union-attr]
    events.sort(key=lambda event: event.start_ns())
    return int(np.cumsum([event.nbytes() for event in events]).max())


@pytest.mark.fault("vllm#9995")
def test_no_line_takes_more_than_the_check_at_the_start_counts() -> None:
    torch.manual_seed(0)
    rows = tuple(rows_of(number, 3, GREEDIEST, drawn=True, vocabulary=VOCABULARY) for number in range(8))
    logits = torch.randn(32, VOCABULARY) * 0.01

    peak = peak_bytes(lambda: verify(logits, rows))

    counted = 32 * VOCABULARY * LINE_BYTES_PER_TOKEN
    assert 0.8 * counted < peak < counted


def test_no_edit_takes_more_than_the_check_at_the_start_counts() -> None:
    rows = tuple(rows_of(number, 3, GREEDIEST, drawn=False, vocabulary=VOCABULARY) for number in range(8))
    logits = torch.zeros(32, VOCABULARY)
    edits = 32 * (PROMPT + 3 + len(GREEDIEST.logit_bias))

    peak = peak_bytes(lambda: adjust(logits, rows))
    tracemalloc.start()
    adjust(logits, rows)
    _, of_numpy = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak + of_numpy < logits.nbytes + EDIT_BYTES * edits


@dataclass
class Sizes:
    """A model, as far as a step's memory goes."""

    layer_bytes_per_token: int
    vocabulary_size: int = 1000
    device: torch.device = CPU
    logits_bytes_per_row: int = 6000


@pytest.mark.fault("vllm#9995")
@pytest.mark.parametrize(
    ("draws", "laws"), [pytest.param(False, 0, id="look-up"), pytest.param(True, 1, id="drawn-drafts")]
)
def test_the_largest_step_is_counted_with_all_that_is_sampled(draws: bool, laws: int) -> None:
    limits = Limits(2048, max_num_seqs=10, max_depth=3, method="m", kv_tokens=4096, kv_block_size=16)

    counted = largest_step_bytes(Sizes(layer_bytes_per_token=1000), limits, draws=draws)

    # 10 x 4 lines of logits; of 10 x 3 drafts the distribution; and in work all lines, each with edits of
    # all 1,000 tokens that can be different, of 100 bytes, on a copy of the line.
    assert counted == 40 * 6000 + laws * 30 * 4000 + 40 * (4000 + 1000 * 100)


def test_a_layer_that_is_gathered_whole_counts_if_it_is_larger_than_what_is_sampled() -> None:
    limits = Limits(2048, max_num_seqs=10, max_depth=3, method="m", kv_tokens=100_000, kv_block_size=16)

    assert largest_step_bytes(Sizes(layer_bytes_per_token=4096), limits, draws=False) == 409_600_000


def test_lines_in_work_take_256_mib_whatever_the_vocabulary() -> None:
    for vocabulary in (5, 49_152, 151_936):
        taken = lines_at_once(vocabulary, CPU) * vocabulary * LINE_BYTES_PER_TOKEN

        assert 0.9 * 2**28 < taken <= 2**28
    assert lines_at_once(10**9, CPU) == 1


def test_a_batch_that_is_judged_in_portions_gets_the_same_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    samplings = [
        Sampling(50, temperature=0.0),
        Sampling(50, seed=1, logprobs=2),
        Sampling(50, seed=2, top_p=0.8, frequency_penalty=1.0),
        Sampling(50, temperature=0.0, logprobs=0),
        Sampling(50, seed=4, top_k=3),
    ]
    rows = tuple(
        rows_of(number, number % 4, sampling, drawn=number in (1, 2), vocabulary=400)
        for number, sampling in enumerate(samplings)
    )
    logits = torch.randn(sum(row.drafts + 1 for row in rows), 400)
    together = verify(logits, rows)

    portioned = []
    for most in (1, 3, 5):
        monkeypatch.setattr(verify_module, "lines_at_once", lambda *_, most=most: most)
        portioned.append(verify(logits, rows))

    assert portioned == [together] * 3


def test_drafts_that_are_drawn_in_portions_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    sequences = [
        a_sequence(number, Sampling(50, seed=number, temperature=number % 3), 400) for number in range(7)
    ]
    logits = torch.randn(7, 400)

    def drafts() -> list[Drawing]:
        drawings = [Drawing() for _ in sequences]
        draw_next(logits, sequences, drawings, Vocabulary(400))
        return drawings

    together = drafts()
    monkeypatch.setattr(drawing, "lines_at_once", lambda *_: 2)
    portioned = drafts()

    assert [one.tokens for one in portioned] == [one.tokens for one in together]
    for one, other in zip(portioned, together, strict=True):
        assert len(one.laws) == len(other.laws)
        assert all(torch.equal(law, same) for law, same in zip(one.laws, other.laws, strict=True))
