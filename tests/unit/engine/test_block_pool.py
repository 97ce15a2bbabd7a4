"""The block pool: every block is free or held, and a published one can be found and shared."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

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


def test_a_published_block_is_found_again_after_it_was_freed() -> None:
    pool = BlockPool(3)
    blocks: list[int] = []
    pool.grow(blocks, 32)
    first, second = blocks
    pool.publish(first, b"a")
    pool.publish(second, b"ab")

    pool.release(blocks)

    assert pool.free == 3
    assert pool.cached([b"a", b"ab", b"abc"]) == [first, second]
    assert pool.cached([b"x", b"ab"]) == []


def test_what_was_never_published_is_taken_first_and_then_what_was_free_for_longest() -> None:
    pool = BlockPool(4)
    tables: list[list[int]] = [[], [], []]
    for table, name in zip(tables, (b"a", b"b", b"c"), strict=True):
        pool.grow(table, BLOCK_SIZE)
        pool.publish(table[0], name)
    for owner in (1, 0, 2):
        pool.release(tables[owner])

    pool.grow([], 2 * BLOCK_SIZE)

    assert [bool(pool.cached([name])) for name in (b"a", b"b", b"c")] == [True, False, True]


def test_the_end_of_a_text_is_lost_before_its_beginning() -> None:
    pool = BlockPool(3)
    blocks: list[int] = []
    pool.grow(blocks, 3 * BLOCK_SIZE)
    for block, key in zip(tuple(blocks), (b"1", b"2", b"3"), strict=True):
        pool.publish(block, key)
    pool.release(blocks)

    pool.grow([], BLOCK_SIZE)

    assert len(pool.cached([b"1", b"2", b"3"])) == 2


def test_a_shared_block_is_free_when_the_last_holder_has_left() -> None:
    pool = BlockPool(2)
    one: list[int] = []
    other: list[int] = []
    pool.grow(one, BLOCK_SIZE)
    pool.publish(one[0], b"a")
    pool.share(other, pool.cached([b"a"]))

    pool.release(one)
    assert pool.free == 1
    pool.release(other)

    assert pool.free == 2


class Pool(RuleBasedStateMachine):
    """Four sequences whose texts are the same as far as they go; what they publish they may share."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(TOTAL)
        self.tables: list[list[int]] = [[] for _ in range(4)]

    @rule(owner=st.integers(0, 3), tokens=st.integers(1, TOTAL * BLOCK_SIZE + 20))
    def grow(self, owner: int, tokens: int) -> None:
        free = self.pool.free
        missing = max(0, blocks_for(tokens) - len(self.tables[owner]))

        grown = self.pool.grow(self.tables[owner], tokens)

        assert grown == (missing <= free)
        assert self.pool.free == free - (missing if grown else 0)

    @rule(owner=st.integers(0, 3))
    def release(self, owner: int) -> None:
        self.pool.release(self.tables[owner])

    @rule(owner=st.integers(0, 3), count=st.integers(0, TOTAL))
    def publish(self, owner: int, count: int) -> None:
        for number, block in enumerate(self.tables[owner][:count]):
            self.pool.publish(block, bytes([number]))

    @rule(owner=st.integers(0, 3))
    def share(self, owner: int) -> None:
        if not self.tables[owner]:
            known = self.pool.cached([bytes([number]) for number in range(TOTAL)])
            self.pool.share(self.tables[owner], known)

    @invariant()
    def no_block_is_lost(self) -> None:
        held = {block for table in self.tables for block in table}
        assert len(held) + self.pool.free == TOTAL

    @invariant()
    def no_sequence_holds_a_block_twice(self) -> None:
        assert all(len(table) == len(set(table)) for table in self.tables)

    def teardown(self) -> None:
        for table in self.tables:
            self.pool.release(table)
        everything: list[int] = []
        assert self.pool.grow(everything, TOTAL * BLOCK_SIZE)
        assert sorted(everything) == list(range(TOTAL))


test_blocks_are_never_lost_whoever_shares_them = Pool.TestCase
