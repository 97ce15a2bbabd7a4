"""How the rows of a step are laid out."""

import numpy as np
import torch

from specfleet_engine.batch import Rows, build_batch
from specfleet_engine.cache import BLOCK_SIZE, KVCache
from specfleet_engine.sequence import Sequence
from specfleet_serving.core import Request, Sampling


def a_row(blocks: list[int]) -> Rows:
    """The last token of a sequence that fills its blocks."""
    length = len(blocks) * BLOCK_SIZE
    sequence = Sequence(Request("r", (1,) * length, Sampling(max_tokens=9)), 10 * BLOCK_SIZE)
    sequence.blocks = blocks
    return Rows(sequence, length - 1, np.array([1]))


def test_a_short_sequence_beside_a_long_one_reads_no_block_of_another() -> None:
    kv = KVCache(1, 9, 1, 4, torch.float32, torch.device("cpu"))

    batch = build_batch([a_row([4]), a_row([0, 7, 2])], kv)

    (group,) = batch.groups
    # What fills the line up is hidden by the mask, which does not hide a NaN.
    assert group.table.tolist() == [[4, 4, 4], [0, 7, 2]]
    assert torch.isneginf(group.mask[0, 0, 0, BLOCK_SIZE:]).all()


def test_no_group_gathers_more_than_the_cache_has() -> None:
    """Two of one block beside one of eight would be filled up to 24 blocks, of a cache of ten."""
    kv = KVCache(1, 10, 1, 4, torch.float32, torch.device("cpu"))
    long = list(range(8))

    batch = build_batch([a_row(long), a_row([8]), a_row([9])], kv)

    assert [group.table.tolist() for group in batch.groups] == [[long], [[8], [9]]]
    assert [(group.begin, group.end) for group in batch.groups] == [(0, 1), (1, 3)]


def test_sequences_of_one_width_stay_in_their_order() -> None:
    """A proposer hands states along in the order of its rows."""
    kv = KVCache(1, 10, 1, 4, torch.float32, torch.device("cpu"))
    rows = [a_row(blocks) for blocks in ([3, 4], [5], [0, 1, 2], [6])]

    assert build_batch(rows, kv).rows == tuple(rows)


def test_a_long_text_that_many_share_is_not_gathered_for_all_at_once() -> None:
    kv = KVCache(1, 9, 1, 4, torch.float32, torch.device("cpu"))
    shared = [0, 1, 2]

    batch = build_batch([a_row([*shared, last]) for last in (3, 4, 5, 6, 7)], kv)

    assert [len(group.table) for group in batch.groups] == [2, 2, 1]
    assert [line[-1] for group in batch.groups for line in group.table.tolist()] == [3, 4, 5, 6, 7]
