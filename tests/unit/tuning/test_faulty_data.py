"""No sequence of faulty samples may raise a depth: design/tuning.md, section 11."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.tuning.bench import POD, REPETITIVE, Bench

from specfleet.api.schedule import depth_for
from specfleet.tuning.decision import EndProbe, Hold, Probe, Push
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.interval import Counts, PodInterval

WORST = Counts(
    steps={2: 1e6},
    step_seconds={2: 1e9},
    sequence_steps={2: 1e6},
    draft_positions={1: 10.0},
    accepted_positions={1: 1e6, 2: 1e6},
    generation_tokens=1e9,
    first_tokens=0.0,
    inter_token_seconds=1.0,
)


def stale(evidence: Evidence) -> Evidence:
    return replace(evidence, reporting=frozenset(), intervals=())


def failed(evidence: Evidence) -> Evidence:
    return replace(evidence, query_fault="the metrics source warns", intervals=())


def absurd(evidence: Evidence) -> Evidence:
    interval = evidence.intervals[0]
    return replace(evidence, intervals=(replace(interval, counts=WORST),))


def overfull(evidence: Evidence) -> Evidence:
    return replace(evidence, intervals=(replace(evidence.intervals[0], kv_usage=1e3),))


def restarted(evidence: Evidence) -> Evidence:
    return replace(evidence, intervals=(replace(evidence.intervals[0], restarted=True),))


def warming(evidence: Evidence) -> Evidence:
    return replace(evidence, warming=frozenset({POD}))


def thin(evidence: Evidence) -> Evidence:
    others = frozenset(("llm", f"missing-{i}") for i in range(3))
    return replace(evidence, expected=evidence.expected | others)


def stuck(evidence: Evidence) -> Evidence:
    return replace(evidence, intervals=(replace(evidence.intervals[0], stuck=True),))


def empty(evidence: Evidence) -> Evidence:
    before = evidence.intervals[0]
    nothing = PodInterval(POD, before.start, before.end, Counts(), version=before.version)
    return replace(evidence, intervals=(nothing,))


def no_number(evidence: Evidence) -> Evidence:
    interval = replace(evidence.intervals[0], kv_usage=None, not_numbers=("vllm:kv_cache_usage_perc",))
    return replace(evidence, intervals=(interval,))


FAULTS = st.sampled_from([stale, failed, absurd, overfull, restarted, warming, thin, stuck, empty, no_number])


@settings(max_examples=60, deadline=None)
@given(faults=st.lists(FAULTS, min_size=1, max_size=30), warm=st.sampled_from([0, 2, 40]))
def test_no_sequence_of_faulty_samples_raises_a_depth(faults: list[object], warm: int) -> None:
    bench = Bench(REPETITIVE)
    for _ in range(warm):
        bench.step()
    # From here on the pod would gain from more depth, but says nothing that can be trusted.
    while bench.memory.probe is not None:
        bench.step()

    for fault in faults:
        before = bench.table
        bench.broken = fault  # type: ignore[assignment]
        decision = bench.step().decision
        assert not isinstance(decision, Probe)
        if isinstance(decision, Push | EndProbe):
            assert all(
                depth_for(decision.table, running) <= depth_for(before, running) for running in range(1, 17)
            )


@pytest.mark.fault("kedacore/keda#7475")
def test_where_the_kv_cache_is_no_number_nothing_is_tried_and_the_metric_is_named() -> None:
    bench = Bench(REPETITIVE)
    for _ in range(2):
        bench.step()
    bench.broken = no_number

    # Ten minutes: twice as long as dropped intervals are counted for.
    decisions = [bench.step().decision for _ in range(40)]

    assert {type(decision) for decision in decisions} == {Hold}
    assert all("vllm:kv_cache_usage_perc is no number" in decision.reason for decision in decisions)
