"""Reading a pod's metrics page, and differencing it."""

import pytest
from dev.demo.counters import difference, read_page, rolling
from records import pod, sample

PAGE = """\
# HELP specfleet_steps_total Decode steps.
# TYPE specfleet_steps_total counter
specfleet_steps_total{depth="0"} 12.0
specfleet_steps_total{depth="5"} 3.0
vllm:num_requests_running{engine="0",model_name="a \\"quoted\\" name"} 2.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="x"} 1.5
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="x"} 7.0
specfleet_schedule_version{fence="3"} 9.0
python_info{version="3"} 1.0
"""


def test_a_page_gives_the_kept_series_and_nothing_else() -> None:
    assert read_page(PAGE) == {
        "steps": {"0": 12.0, "5": 3.0},
        "running": 2.0,
        "decodeSeconds": 1.5,
        "scheduleVersion": 9.0,
    }


def test_mean_depth_weighs_depths_by_steps() -> None:
    earlier = sample(0, "x", {**pod(0, depth=5, token_seconds=0.1), "steps": {"0": 10.0, "5": 10.0}})
    later = sample(10, "x", {**pod(10, depth=5, token_seconds=0.1), "steps": {"0": 40.0, "5": 20.0}})

    # 30 steps at depth 0 and 10 at depth 5.
    assert difference(earlier, later).mean_depth == pytest.approx(1.25)


def test_first_tokens_are_no_part_of_the_time_per_output_token() -> None:
    earlier = sample(0, "x", pod(0, depth=0, token_seconds=0.1))
    later = sample(10, "x", {**pod(10, depth=0, token_seconds=0.1), "firstTokens": 20.0})

    # 10 s of decoding over 100 - 20 tokens.
    assert difference(earlier, later).token_seconds == pytest.approx(0.125)


def test_a_pod_that_restarted_is_left_out_instead_of_counting_backwards() -> None:
    earlier = sample(0, "x", pod(100, depth=5, token_seconds=0.1))
    later = sample(10, "x", pod(1, depth=5, token_seconds=0.1))

    assert difference(earlier, later).mean_depth is None


def test_windows_end_at_every_sample_and_are_long_enough() -> None:
    samples = [sample(time, "x", {}) for time in (0, 4, 8, 13, 14)]

    pairs = [(earlier["time"], later["time"]) for earlier, later in rolling(samples, 8.0)]

    assert pairs == [(0, 8), (4, 13), (4, 14)]
