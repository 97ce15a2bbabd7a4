"""What is counted of a step: depth, requests, time and drafts, all worked out by hand here."""

from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from tests.unit.vllm_plugin.conftest import Make
from tests.unit.vllm_plugin.standin import Request, advance, answer, write


def counted(scheduler: Any, name: str) -> dict[str, float]:
    """Give a counter's series that are not 0, by their one label."""
    registry: CollectorRegistry = scheduler._specfleet.metrics.registry
    return {
        next(iter(sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == f"specfleet_{name}_total" and sample.value
    }


def started(make: Make, *others: Request, max_tokens: int = 100) -> Any:
    """Give a scheduler with one request, whose prompt was read by a step that drafted for it."""
    scheduler = make(running=[Request("a", is_prefill_chunk=True, max_tokens=max_tokens), *others])
    advance(scheduler)
    return scheduler


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def with_clock(scheduler: Any) -> Clock:
    clock = Clock()
    scheduler._specfleet._clock = clock
    return clock


def test_a_step_counts_at_the_depth_its_drafts_were_made_at(make: Make, file: Path) -> None:
    write(file, [{"depth": 2}])
    scheduler = started(make)  # reads the prompt, drafts 2
    assert counted(scheduler, "steps") == {}

    advance(scheduler)  # verifies them
    scheduler._specfleet._follower.stop()
    write(file, [{"depth": 4}], version=2)
    scheduler._specfleet._follower.poll()
    advance(scheduler)  # still verifies 2, drafts 4
    advance(scheduler)

    assert counted(scheduler, "steps") == {"2": 2, "4": 1}
    assert counted(scheduler, "draft_positions") == {"0": 3, "1": 3, "2": 1, "3": 1}


def test_requests_that_still_read_do_not_count_as_decoding(make: Make, file: Path) -> None:
    write(file, [{"depth": 2}])
    scheduler = started(make)
    scheduler.running += [Request("b", is_prefill_chunk=True), Request("c", is_prefill_chunk=True)]

    advance(scheduler)
    advance(scheduler)

    assert counted(scheduler, "steps") == {"2": 2}
    assert counted(scheduler, "sequence_steps") == {"2": 1 + 3}


def test_accepted_drafts_count_by_position(make: Make, file: Path) -> None:
    write(file, [{"depth": 3}])
    scheduler = started(make)

    advance(scheduler, tokens=3)  # two drafts and the target's own token
    advance(scheduler, tokens=1)

    assert counted(scheduler, "draft_positions") == {"0": 2, "1": 2, "2": 2}
    assert counted(scheduler, "accepted_positions") == {"0": 1, "1": 1}


def test_drafts_past_the_end_of_a_request_count_neither_way(make: Make, file: Path) -> None:
    write(file, [{"depth": 5}])
    scheduler = started(make, max_tokens=11)

    advance(scheduler, tokens=6)
    advance(scheduler, tokens=6)  # room for four: two of the six are cut, the target's own among them

    assert counted(scheduler, "sequence_steps") == {"5": 2}
    assert counted(scheduler, "draft_positions") == {"0": 2, "1": 2, "2": 2, "3": 2, "4": 1}
    assert counted(scheduler, "accepted_positions") == {"0": 2, "1": 2, "2": 2, "3": 2, "4": 1}


def test_drafts_that_a_grammar_forbade_were_not_proposed(make: Make, file: Path) -> None:
    write(file, [{"depth": 3}])
    scheduler = started(make)

    step = scheduler.schedule()
    step.num_invalid_spec_tokens = {"a": 2}
    scheduler.update_from_output(step, answer(step))

    assert counted(scheduler, "draft_positions") == {"0": 1}


def test_time_between_steps_belongs_to_the_next_step_and_idle_time_to_none(make: Make, file: Path) -> None:
    write(file, [{"depth": 1}])
    scheduler = make(running=[Request("a", is_prefill_chunk=True, max_tokens=3)])
    clock = with_clock(scheduler)

    for seconds in (2.0, 0.25, 0.5):  # the first reads the prompt
        step = scheduler.schedule()
        clock.now += seconds
        scheduler.update_from_output(step, answer(step))
        clock.now += 0.125  # what the engine does between two steps
    clock.now += 60  # nobody asks
    scheduler.running.append(Request("b"))
    step = scheduler.schedule()
    clock.now += 1.0
    scheduler.update_from_output(step, answer(step))

    assert counted(scheduler, "step_seconds") == {"1": 0.125 + 0.25 + 0.125 + 0.5 + 1.0}


def test_steps_that_overlap_share_the_time(make: Make, file: Path) -> None:
    write(file, [{"depth": 1}])
    scheduler = make(running=[Request("a")])
    clock = with_clock(scheduler)

    first = scheduler.schedule()
    clock.now += 0.5
    second = scheduler.schedule()  # while the first still runs
    clock.now += 0.5
    scheduler.update_from_output(first, answer(first))
    clock.now += 1.0
    scheduler.update_from_output(second, answer(second))

    # From the first one's scheduling to the second one's end.
    assert sum(counted(scheduler, "step_seconds").values()) == 2.0


def test_a_step_that_never_ended_is_forgotten(make: Make, file: Path) -> None:
    write(file, [{"depth": 1}])
    scheduler = make(running=[Request("a")])

    scheduler.schedule()
    advance(scheduler)

    assert sum(counted(scheduler, "steps").values()) == 1
