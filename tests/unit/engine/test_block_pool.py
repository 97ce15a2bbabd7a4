"""The block pool: every block is free or held by exactly one sequence."""

from hypothesis import given
from hypothesis import strategies as st

from specfleet_engine.cache import BLOCK_SIZE, BlockPool, blocks_for

TOTAL = 12


def test_tokens_fill_blocks_before_a_new_one_is_taken() -> None:
    assert [blocks_for(tokens) for tokens in (0, 1, 16, 17, 32, 33)] == [0, 1, 1, 2, 2, 3]


def test_a_growth_that_does_not_fit_takes_nothing() -> None:
    pool = BlockPool(3)
    blocks: list[int] = []
    pool.grow(blocks, 20)

    grown = pool.grow(blocks, 4 * BLOCK_SIZE)

    assert not grown
    assert (len(blocks), pool.free) == (2, 1)


def test_usage_is_the_held_share() -> None:
    pool = BlockPool(4)
    pool.grow([], 17)

    assert pool.usage == 0.5


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, TOTAL * BLOCK_SIZE + 20)), max_size=60))
def test_blocks_are_never_lost_or_held_twice(actions: list[tuple[int, int]]) -> None:
    pool = BlockPool(TOTAL)
    tables: list[list[int]] = [[] for _ in range(4)]

    for owner, tokens in actions:
        if tokens:
            pool.grow(tables[owner], tokens)
        else:
            pool.release(tables[owner])

        held = [block for table in tables for block in table]
        assert len(held) == len(set(held))
        assert len(held) + pool.free == TOTAL

    for table in tables:
        pool.release(table)
    assert sorted(pool._free) == list(range(TOTAL))
