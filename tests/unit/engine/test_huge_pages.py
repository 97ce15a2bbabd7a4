"""Weights in huge pages: what is placed is what was given, and nothing lies over anything else."""

import torch

from specfleet_engine.pages import HugePages, huge_zeros

MIB = 1 << 20


def test_tensors_keep_their_values_whatever_is_placed_after_them() -> None:
    pages = HugePages()
    given = [torch.randn(3, 5), torch.randn(64, 48).T.bfloat16(), torch.arange(7), torch.randn(2, 2, 9)]

    placed = [pages.place(tensor) for tensor in given]

    for tensor, copy in zip(given, placed, strict=True):
        assert torch.equal(tensor, copy)
        assert copy.dtype is tensor.dtype
        assert copy.is_contiguous()
        assert copy.data_ptr() % 64 == 0


def test_what_is_larger_than_a_chunk_gets_one_of_its_own_on_whole_pages() -> None:
    pages = HugePages()
    small = pages.place(torch.full((9,), 1.0))

    large = pages.place(torch.full((70 * MIB,), 2, dtype=torch.uint8))

    assert large.data_ptr() % (2 * MIB) == 0
    assert bool((large == 2).all())
    assert small.tolist() == [1.0] * 9


def test_memory_outlives_the_one_who_placed_it() -> None:
    placed = HugePages().place(torch.arange(1000))

    assert placed.tolist() == list(range(1000))


def test_huge_zeros_are_zeros_of_the_wanted_shape_that_can_be_written() -> None:
    zeros = huge_zeros((3, 5, 7), torch.bfloat16)

    assert zeros.shape == (3, 5, 7)
    assert zeros.is_contiguous()
    assert not zeros.any()
    zeros[1] = 2
    assert zeros.sum() == 70
