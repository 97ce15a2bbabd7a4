"""The cost model: what a step takes."""

import pytest

from specfleet_simulated.cost import CostModel

MODEL = CostModel(step_seconds=0.020, knee_tokens=64)


def test_a_lone_decode_step_takes_the_time_that_was_asked_for() -> None:
    assert MODEL.decode_seconds(tokens=1, kv_tokens=0, depth=0) == pytest.approx(0.020, rel=1e-6)


def test_below_the_knee_verifying_more_tokens_is_nearly_free() -> None:
    one = MODEL.decode_seconds(1, 0, 0)

    assert MODEL.decode_seconds(16, 0, 0) < 1.001 * one


def test_at_the_knee_memory_and_compute_weigh_the_same() -> None:
    # g(N) = (m^4 + (c N)^4)^(1/4) with c N = m; m = 16 ms and o = 4 ms of 20 ms.
    assert MODEL.decode_seconds(64, 0, 0) == pytest.approx(0.004 + 0.016 * 2**0.25)


def test_far_beyond_the_knee_time_grows_with_the_tokens() -> None:
    assert MODEL.decode_seconds(640, 0, 0) == pytest.approx(0.004 + 0.160, rel=0.001)


def test_depth_0_does_not_pay_for_drafting() -> None:
    assert MODEL.draft_seconds(0) == 0
    assert 0 < MODEL.draft_seconds(1) < MODEL.draft_seconds(5)


def test_speculation_pays_for_one_request_and_not_for_many() -> None:
    """The reason for the whole project: three accepted of five drafts, at batch 1 and at batch 64."""

    def tokens_per_second(batch: int, depth: int, tokens_per_step: float) -> float:
        return tokens_per_step / MODEL.decode_seconds(batch * (depth + 1), batch * 300, depth)

    assert tokens_per_second(1, 5, 4.0) > 3 * tokens_per_second(1, 0, 1.0)
    assert tokens_per_second(64, 5, 4.0) < tokens_per_second(64, 0, 1.0)
