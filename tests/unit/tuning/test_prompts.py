"""Prompts beside decoding rows, from counters to the cost model: they are no reason to change a depth."""

from dataclasses import replace
from math import exp

import pytest
from tests.unit.tuning.bench import POD, some_settings

from specfleet.tuning.bins import bins
from specfleet.tuning.cost import StepCost
from specfleet.tuning.evidence import Evidence, usable
from specfleet.tuning.interval import Counts, PodInterval
from specfleet.tuning.learn import learn
from specfleet.tuning.memory import Memory
from specfleet.tuning.model import Place, log_seconds, rows_of
from specfleet.tuning.windows import Window, beside

# 100 steps of four requests at depth 2; 4 prompts of 1,250 tokens each, of which 250 were cached.
COUNTS = Counts(
    steps={2: 100.0},
    step_seconds={2: 3.0},
    sequence_steps={2: 400.0},
    draft_positions={1: 400.0, 2: 400.0},
    accepted_positions={1: 200.0, 2: 100.0},
    generation_tokens=800.0,
    first_tokens=4.0,
    prompt_tokens=5000.0,
    cached_prompt_tokens=1000.0,
)


def learnt(counts: Counts) -> Memory:
    interval = PodInterval(pod=POD, start=0.0, end=15.0, counts=counts)
    pods = frozenset({POD})
    evidence = Evidence(None, expected=pods, reporting=pods, intervals=(interval,))
    return learn(Memory(), usable(evidence), evidence, some_settings(), bins(16), 15.0)


def test_a_window_knows_the_prompt_tokens_that_its_steps_read_and_how_many_at_once() -> None:
    memory = learnt(COUNTS)

    (window,) = memory.windows
    assert window.prompts == pytest.approx(40.0 * beside(4.0))
    assert (window.chunk, memory.chunk, memory.rho) == (1000.0, 1000.0, 5.0)


def test_an_engine_that_does_not_count_prompts_has_none() -> None:
    memory = learnt(replace(COUNTS, prompt_tokens=None, cached_prompt_tokens=None))

    (window,) = memory.windows
    assert window.prompts == 0.0
    assert memory.rho is None


@pytest.mark.fault("vllm#48627")
def test_windows_with_long_prompts_do_not_make_their_depth_look_dear() -> None:
    # The true cost is the formula's own; depth 5 happened to be measured while long prompts came.
    numbers = [3.7e-3, 14.4e-3, 59.5e-6, 1e-12, 4.77e-8, 0.6e-3, 0.9e-3, 1e-12]

    def window(i: int, depth: int, prompts: float) -> Window:
        place = Place(4.0, 4.0 * (1 + depth), depth, 8000.0, prompts)
        (logs,), _ = log_seconds(rows_of((place,)), numbers)
        return Window(15.0 * i, depth, 4.0, place.tokens, exp(logs), 300.0, 8000.0, prompts)

    spans = [(2, 20.0)] * 4 + [(5, 250.0)] * 2 + [(2, 20.0)] * 4
    windows = tuple(window(i, depth, prompts) for i, (depth, prompts) in enumerate(spans))
    cost = StepCost(windows, 150.0, context=2000.0)

    # Alone it is 20.9 against 23.6 ms, 1.13; as measured, prompts included, over 1.4.
    assert windows[4].seconds > 1.4 * windows[0].seconds
    assert cost.seconds(4.0, 24.0, 5) / cost.seconds(4.0, 12.0, 2) == pytest.approx(1.13, abs=0.13)
