"""The true cost of a step. Values: design/tuning.md, section 5; design/simulator.md, section 1."""

import pytest

from specfleet.simulator.cost import Cost, padded, step_seconds

PLAIN = Cost(draft_request=0.0)


@pytest.mark.parametrize(
    ("batch", "depth", "kv_tokens", "loaded", "milliseconds"),
    [
        pytest.param(16, 3, 19200, 1, 22.33, id="depth-3-at-16"),
        pytest.param(16, 0, 19200, 0, 19.02, id="hard-off-at-16"),
        pytest.param(16, 0, 19200, 1, 20.54, id="soft-off-pays-the-tax"),
        pytest.param(128, 3, 153600, 1, 45.16, id="depth-3-at-128"),
        pytest.param(128, 0, 153600, 0, 25.70, id="hard-off-at-128"),
    ],
)
def test_a_step_takes_what_the_worked_example_says(
    batch: int, depth: int, kv_tokens: int, loaded: int, milliseconds: float
) -> None:
    seconds = step_seconds(PLAIN, batch, batch * (depth + 1), kv_tokens, depth, loaded)

    assert 1000 * seconds == pytest.approx(milliseconds, abs=0.006)


@pytest.mark.parametrize(
    ("tokens", "captured"), [(1, 8), (64, 64), (65, 80), (256, 256), (257, 288), (512, 512), (513, 513)]
)
def test_tokens_are_padded_to_the_next_captured_graph(tokens: int, captured: int) -> None:
    assert padded(float(tokens)) == captured


def test_beyond_the_largest_graph_the_blend_costs_four_percent_more() -> None:
    bare = PLAIN._replace(graphs=0.0)
    blend = (14.4e-3**4 + (59.5e-6 * 600) ** 4) ** 0.25

    difference = step_seconds(PLAIN, 100, 600, 0, 5, 1) - step_seconds(bare, 100, 600, 0, 5, 1)

    assert difference == pytest.approx(0.04 * blend)


def test_drafts_cost_a_microsecond_per_request_and_depth() -> None:
    dearer = step_seconds(Cost(), 100, 400, 0, 3, 1) - step_seconds(PLAIN, 100, 400, 0, 3, 1)

    assert dearer == pytest.approx(300e-6)


def test_a_proposer_that_runs_at_depth_zero_is_paid_there() -> None:
    idle = PLAIN._replace(zero_draft=1.0)

    assert step_seconds(idle, 16, 16, 0, 0, 1) - step_seconds(PLAIN, 16, 16, 0, 0, 1) == pytest.approx(0.6e-3)
