"""Keys of blocks: equal for equal texts from the first token on, and for nothing else."""

import numpy as np

from specfleet_engine.cache import BLOCK_SIZE
from specfleet_engine.sequence import Sequence
from specfleet_serving.core import Request, Sampling

TEXT = tuple(range(100, 100 + 3 * BLOCK_SIZE))


def keys(prompt: tuple[int, ...]) -> list[bytes]:
    sequence = Sequence(Request("r", prompt, Sampling(max_tokens=5)), 200)
    return sequence.keys(len(prompt) // BLOCK_SIZE)


def test_texts_share_keys_as_far_as_they_are_equal() -> None:
    other = (*TEXT[: 2 * BLOCK_SIZE], 7, *TEXT[2 * BLOCK_SIZE + 1 :])

    assert keys(TEXT)[:2] == keys(other)[:2]
    assert keys(TEXT)[2] != keys(other)[2]


def test_a_block_with_another_beginning_before_it_has_another_key() -> None:
    other = (7, *TEXT[1:])

    assert not set(keys(TEXT)) & set(keys(other))


def test_a_sequence_that_was_rewound_keeps_its_tokens() -> None:
    sequence = Sequence(Request("r", TEXT, Sampling(max_tokens=5)), 200)
    sequence.written, sequence.published, sequence.prefilling = len(TEXT), 3, False
    sequence.append((1, 2))

    sequence.rewind()

    assert (sequence.written, sequence.published, sequence.prefilling) == (0, 0, True)
    assert np.array_equal(sequence.tokens, [*TEXT, 1, 2])
