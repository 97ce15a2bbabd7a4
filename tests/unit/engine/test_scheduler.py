"""Who gets a turn, who reads, who waits, and which blocks that takes."""

import pytest

from specfleet_engine.cache import BLOCK_SIZE, BlockPool
from specfleet_engine.scheduler import AdmissionFailed, Plan, Scheduler
from specfleet_engine.sequence import Sequence
from specfleet_serving.core import Request, Sampling

CHUNK = 32


def a_scheduler(blocks: int = 12, max_num_seqs: int = 4) -> Scheduler:
    return Scheduler(BlockPool(blocks), max_num_seqs, CHUNK)


def a_sequence(name: str, prompt: int, max_tokens: int = 50) -> Sequence:
    # A text of its own, so that no sequence finds another one's blocks.
    tokens = tuple(sum(name.encode()) + place for place in range(prompt))
    return Sequence(Request(name, tokens, Sampling(max_tokens=max_tokens)), 12 * BLOCK_SIZE)


def do(plan: Plan | None) -> Plan:
    """Carry a plan out as the core does: all is read, and one token comes of it."""
    assert plan is not None
    for chunk in plan.chunks:
        chunk.sequence.written += chunk.count
        if chunk.sequence.written == len(chunk.sequence):
            chunk.sequence.prefilling = False
            chunk.sequence.append((1,))
    for turn in plan.turns:
        turn.sequence.written += 1
        turn.sequence.append((1,))
    return plan


def test_prompts_are_read_beside_those_who_decode() -> None:
    scheduler = a_scheduler()
    scheduler.add(a_sequence("first", 10))
    do(scheduler.plan(2))
    scheduler.add(a_sequence("second", 10))

    plan = do(scheduler.plan(2))

    assert [turn.sequence.id for turn in plan.turns] == ["first"]
    assert [chunk.sequence.id for chunk in plan.chunks] == ["second"]


def test_no_step_reads_more_prompt_than_a_chunk() -> None:
    scheduler = a_scheduler()
    for name, tokens in (("a", 20), ("b", 40), ("c", 10)):
        scheduler.add(a_sequence(name, tokens))

    read = [[(chunk.sequence.id, chunk.count) for chunk in do(scheduler.plan(0)).chunks] for _ in range(3)]

    assert read == [[("a", 20), ("b", 12)], [("b", 28), ("c", 4)], [("c", 6)]]


def test_a_sequence_is_admitted_with_the_blocks_of_its_first_k_plus_1_rows() -> None:
    scheduler = a_scheduler()
    scheduler.add(sequence := a_sequence("r", 30))

    scheduler.plan(2)

    assert len(sequence.blocks) == 3  # 30 + 2 + 1 tokens


def test_nobody_is_admitted_into_blocks_that_the_others_need_next() -> None:
    # 4 blocks: one sequence of 30 tokens takes 3 at depth 2, and one more must stay free for it.
    scheduler = a_scheduler(blocks=4)
    scheduler.add(a_sequence("first", 30))
    do(scheduler.plan(2))
    scheduler.add(a_sequence("second", 5))

    plan = do(scheduler.plan(2))

    assert plan.chunks == ()
    assert [turn.room for turn in plan.turns] == [2]
    assert len(scheduler.waiting) == 1


def test_a_newcomer_costs_nobody_a_draft() -> None:
    scheduler = a_scheduler(blocks=6)
    scheduler.add(a_sequence("first", 2 * BLOCK_SIZE - 2))
    do(scheduler.plan(0))
    scheduler.add(a_sequence("second", 3 * BLOCK_SIZE - 1))

    plan = do(scheduler.plan(5))

    assert [turn.room for turn in plan.turns] == [5]
    assert plan.chunks == ()


def test_the_last_admitted_gives_its_blocks_to_an_older_one() -> None:
    scheduler = a_scheduler(blocks=4)
    scheduler.add(old := a_sequence("old", BLOCK_SIZE - 1))
    scheduler.add(young := a_sequence("young", BLOCK_SIZE - 1))
    do(scheduler.plan(0))

    while not (plan := do(scheduler.plan(0))).preempted:
        pass

    assert plan.preempted == (young,)
    assert [turn.sequence for turn in plan.turns] == [old]
    assert (young.blocks, young.written, scheduler.waiting[0]) == ([], 0, young)


def test_a_preempted_sequence_goes_on_before_those_who_never_ran() -> None:
    scheduler = a_scheduler(blocks=4)
    scheduler.add(a_sequence("old", BLOCK_SIZE - 1))
    scheduler.add(young := a_sequence("young", BLOCK_SIZE - 1))
    do(scheduler.plan(0))
    scheduler.add(waiting := a_sequence("waiting", 3 * BLOCK_SIZE))

    while not do(scheduler.plan(0)).preempted:
        pass

    assert list(scheduler.waiting) == [young, waiting]


def test_drafts_preempt_nobody_and_take_what_is_free() -> None:
    scheduler = a_scheduler(blocks=3)
    scheduler.add(sequence := a_sequence("r", 2 * BLOCK_SIZE - 3))
    scheduler.pool.grow([], BLOCK_SIZE)
    do(scheduler.plan(0))

    plan = do(scheduler.plan(5))

    # 30 tokens and 2 free slots behind them in the sequence's own second block.
    assert (len(sequence.blocks), plan.turns[0].room, plan.preempted) == (2, 2, ())


def test_nobody_drafts_beyond_its_last_token() -> None:
    scheduler = a_scheduler()
    scheduler.add(a_sequence("r", 5, max_tokens=4))
    do(scheduler.plan(5))

    rooms = [do(scheduler.plan(5)).turns[0].room for _ in range(3)]

    # 3, 2 and 1 tokens are left, of which each step gives one without drafting it.
    assert rooms == [2, 1, 0]


def test_a_known_beginning_is_shared_and_the_last_token_is_always_read() -> None:
    scheduler = a_scheduler()
    text = tuple(range(2 * BLOCK_SIZE))
    first, second = (Sequence(Request(name, text, Sampling(max_tokens=9)), 100) for name in "ab")
    scheduler.add(first)
    do(scheduler.plan(0))
    for block, key in zip(first.blocks, first.keys(2), strict=False):
        scheduler.pool.publish(block, key)
    scheduler.add(second)

    plan = scheduler.plan(0)

    assert plan is not None
    assert [(chunk.sequence, chunk.count) for chunk in plan.chunks] == [(second, BLOCK_SIZE)]
    assert second.blocks[0] == first.blocks[0]
    assert second.blocks[1] != first.blocks[1]


def test_a_sequence_that_cannot_be_admitted_is_named_and_no_preemption_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Three blocks; each of the two needs a second one for its 17th token.
    scheduler = a_scheduler(blocks=3)
    first, second = a_sequence("first", 15), a_sequence("second", 15)
    scheduler.add(first)
    do(scheduler.plan(0))
    scheduler.add(second)
    do(scheduler.plan(0))
    do(scheduler.plan(0))
    assert scheduler.running == [first, second]
    monkeypatch.setattr(second, "keys", lambda _: 1 / 0)

    with pytest.raises(AdmissionFailed) as failure:
        scheduler.plan(0)
    scheduler.remove(failure.value.sequence)
    scheduler.add(a_sequence("third", 15))
    plan = do(scheduler.plan(0))

    assert failure.value.sequence is second
    assert plan.preempted == (second,)
    assert [turn.sequence for turn in plan.turns] == [first]
