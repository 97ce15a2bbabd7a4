"""The simulated core: order, KV cache, preemption, and text that nothing of it changes."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specfleet_serving.core import Limits, Request, Sampling, Step
from specfleet_simulated.core import SimulatedCore
from specfleet_simulated.cost import CostModel
from specfleet_simulated.script import Acceptance
from specfleet_simulated.tokenizer import SimulatedTokenizer

TOKENIZER = SimulatedTokenizer()
NO_TIME = CostModel(step_seconds=1e-9, knee_tokens=64)


def a_core(max_num_seqs: int = 8, kv_tokens: int = 4096, cost: CostModel = NO_TIME) -> SimulatedCore:
    limits = Limits(512, max_num_seqs, 8, "ngram", kv_tokens, 16)
    return SimulatedCore(limits, cost, Acceptance(0.5, 0.9, 2), TOKENIZER)


def a_request(request_id: str, prompt_tokens: int = 20, max_tokens: int = 30) -> Request:
    sampling = Sampling(max_tokens=max_tokens, temperature=0.0)
    return Request(request_id, tuple(range(97, 97 + prompt_tokens)), sampling)


def run(
    core: SimulatedCore, requests: Sequence[Request], depths: Sequence[int] = (0,)
) -> dict[str, list[int]]:
    """Add the requests, step with these depths in turn until all are done, and give their tokens."""
    texts: dict[str, list[int]] = {request.id: [] for request in requests}
    limits = {request.id: request.sampling.max_tokens for request in requests}
    for request in requests:
        core.add(request)
    for number in range(10_000):
        step = core.step(depths[number % len(depths)])
        if step is None:
            return texts
        assert 0 <= core.load().kv_usage <= 1
        for sequence in step.sequences:
            assert sequence.accepted <= sequence.drafted
            assert len(sequence.tokens) == sequence.accepted + 1
            texts[sequence.request_id].extend(sequence.tokens)
            if len(texts[sequence.request_id]) >= limits[sequence.request_id]:
                core.remove(sequence.request_id)
    raise AssertionError("the requests did not finish")


@settings(deadline=None, max_examples=40)
@given(
    depths=st.lists(st.integers(0, 8), min_size=1, max_size=10),
    kv_tokens=st.sampled_from([80, 128, 4096]),
    max_num_seqs=st.integers(1, 6),
)
def test_greedy_text_is_the_same_whatever_depth_batch_and_cache(
    depths: list[int], kv_tokens: int, max_num_seqs: int
) -> None:
    requests = [a_request(f"r{index}", prompt_tokens=10 + index) for index in range(6)]
    alone = {one.id: run(a_core(), [one])[one.id] for one in requests}
    core = a_core(max_num_seqs, kv_tokens)

    together = run(core, requests, depths)

    assert together == alone
    assert core.load().kv_usage == 0


def test_requests_wait_in_order_when_the_batch_is_full() -> None:
    core = a_core(max_num_seqs=2)
    for name in "abc":
        core.add(a_request(name))

    step = core.step(0)

    assert step is not None
    assert step.admitted == ("a", "b")
    assert (core.load().running, core.load().waiting) == (2, 1)


def test_a_prompt_that_does_not_fit_the_cache_waits_and_holds_up_those_behind_it() -> None:
    core = a_core(kv_tokens=128)
    core.add(a_request("fits", prompt_tokens=70))
    core.add(a_request("does-not", prompt_tokens=70))
    core.add(a_request("small", prompt_tokens=5))

    step = core.step(0)

    assert step is not None
    assert step.admitted == ("fits",)


def test_when_the_cache_runs_out_the_youngest_gives_way_and_finishes_later() -> None:
    core = a_core(kv_tokens=96)
    for name in ("old", "young"):
        core.add(a_request(name, prompt_tokens=30, max_tokens=40))

    steps = [step for step in iter_steps(core, 24) if step.preempted]

    assert [step.preempted for step in steps] == [1]
    assert [one.request_id for one in steps[0].sequences] == ["old"]
    assert core.load().waiting == 1


def test_a_prompt_that_is_read_again_is_counted_once() -> None:
    core = a_core(kv_tokens=96)
    prompt_tokens = 0
    for name in ("old", "young"):
        core.add(a_request(name, prompt_tokens=30, max_tokens=40))
    given_tokens = {"old": 0, "young": 0}

    while step := core.step(2):
        prompt_tokens += step.prompt_tokens
        for sequence in step.sequences:
            given_tokens[sequence.request_id] += len(sequence.tokens)
            if given_tokens[sequence.request_id] >= 40:
                core.remove(sequence.request_id)

    assert prompt_tokens == 60


def test_removing_a_request_frees_what_it_holds_wherever_it_is() -> None:
    core = a_core(max_num_seqs=1)
    core.add(a_request("runs"))
    core.add(a_request("waits"))
    core.step(0)

    for name in ("runs", "waits", "unknown"):
        core.remove(name)

    assert core.load().kv_usage == 0
    assert core.step(0) is None


def test_depth_0_drafts_nothing_and_the_last_token_is_never_a_draft() -> None:
    core = a_core()
    core.add(a_request("one", max_tokens=3))
    core.step(8)

    plain = core.step(0)
    last = core.step(8)

    assert plain is not None
    assert last is not None
    assert plain.sequences[0].drafted == 0
    assert plain.proposer_seconds == 0
    assert last.sequences[0].drafted == 0


def test_a_step_takes_the_time_of_the_model() -> None:
    core = a_core(cost=CostModel(step_seconds=0.02, knee_tokens=64))
    core.add(a_request("one"))

    steps = list(iter_steps(core, 6))

    # Never faster in sum; how much slower is up to the machine.
    assert sum(step.seconds for step in steps) >= 6 * 0.0195


def iter_steps(core: SimulatedCore, count: int) -> list[Step]:
    steps = [core.step(0) for _ in range(count)]
    return [step for step in steps if step is not None]


@pytest.mark.parametrize("prompt_tokens", [3000])
def test_a_long_prompt_is_read_in_several_steps(prompt_tokens: int) -> None:
    core = SimulatedCore(Limits(4096, 4, 8, "ngram", 8192, 16), NO_TIME, Acceptance(0.5, 0.9, 2), TOKENIZER)
    core.add(Request("long", (97,) * prompt_tokens, Sampling(max_tokens=4, temperature=0.0)))

    first, second = core.step(0), core.step(0)

    assert first is not None
    assert second is not None
    assert (first.sequences, first.prompt_tokens) == ((), 0)
    assert (len(second.sequences), second.prompt_tokens) == (1, prompt_tokens)
