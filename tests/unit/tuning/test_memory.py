"""What outlives the operator."""

from dataclasses import replace

from tests.unit.tuning.bench import REPETITIVE, Bench

from specfleet.tuning.memory import Memory, from_json, to_json


def test_a_memory_comes_back_as_it_was_but_waits_for_a_full_window() -> None:
    memory = Bench(REPETITIVE).run(300.0).memory

    assert from_json(to_json(memory)) == replace(memory, good_passes=0)


def test_a_text_of_another_release_is_forgotten_and_no_error() -> None:
    assert from_json('{"windows": "all"}') is None
    assert from_json("") is None


def test_a_memory_stays_small() -> None:
    memory = Bench(REPETITIVE).run(3600.0).memory

    assert len(to_json(memory)) < 100_000


def test_a_new_operator_does_nothing_before_a_full_window() -> None:
    bench = Bench(REPETITIVE).run(300.0)
    while bench.memory.probe is not None:
        bench.step()
    before = bench.document

    bench.memory = from_json(to_json(bench.memory)) or Memory()
    reasons = [bench.step().decision.reason for _ in range(2)]

    assert reasons == ["waits for 3 intervals of whole data"] * 2
    assert bench.document == before
