"""Where an engine's counters lie: one flat array that the step loop adds to and `exposition` writes out.

Bounds of histograms as in a page of vLLM 0.32; a test holds them against the engines' own.
"""

from typing import NamedTuple

import numpy as np

POSITIONS = 8  # the deepest draft that can be simulated
DEPTHS = POSITIONS + 1
OUTCOMES = ("stop", "length", "abort", "error", "repetition")

DRAFTS = 0
DRAFT_TOKENS = 1
ACCEPTED = 2
GENERATED = 3
PROMPT = 4
CACHED = 5
PREEMPTIONS = 6
FINISHED = 7
PROPOSER_SECONDS = FINISHED + len(OUTCOMES)
VERIFY_SECONDS = PROPOSER_SECONDS + 1
ACCEPTED_AT = VERIFY_SECONDS + 1
DRAFTED_AT = ACCEPTED_AT + POSITIONS
STEPS = DRAFTED_AT + POSITIONS
STEP_SECONDS = STEPS + DEPTHS
SEQUENCE_STEPS = STEP_SECONDS + DEPTHS
_FIRST_HISTOGRAM = SEQUENCE_STEPS + DEPTHS

FIRST_TOKEN_BOUNDS = np.array(
    (
        *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
        *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
    )
)
TOKEN_BOUNDS = np.array(
    (
        *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
        *(20.0, 40.0, 80.0),
    )
)
FINE_TOKEN_BOUNDS = np.array([0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, *TOKEN_BOUNDS])
REQUEST_BOUNDS = np.array(
    (
        *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0),
        *(480.0, 960.0, 1920.0, 7680.0),
    )
)
ITERATION_BOUNDS = np.array([float(2**power) for power in (0, *range(3, 15))])


class Histogram(NamedTuple):
    """A block of counts, one per bound and one for +Inf, and the sum after them."""

    name: str
    start: int
    bounds: np.ndarray

    @property
    def sum_at(self) -> int:
        return self.start + len(self.bounds) + 1


def _blocks() -> tuple[Histogram, ...]:
    start = _FIRST_HISTOGRAM
    found = []
    for name, bounds in (
        ("time_to_first_token_seconds", FIRST_TOKEN_BOUNDS),
        ("inter_token_latency_seconds", TOKEN_BOUNDS),
        ("request_time_per_output_token_seconds", FINE_TOKEN_BOUNDS),
        ("e2e_request_latency_seconds", REQUEST_BOUNDS),
        ("request_queue_time_seconds", REQUEST_BOUNDS),
        ("request_prefill_time_seconds", REQUEST_BOUNDS),
        ("request_decode_time_seconds", REQUEST_BOUNDS),
        ("iteration_tokens_total", ITERATION_BOUNDS),
    ):
        found.append(Histogram(name, start, bounds))
        start = found[-1].sum_at + 1
    return tuple(found)


HISTOGRAMS = _blocks()
COUNTERS = HISTOGRAMS[-1].sum_at + 1
FIRST_TOKEN, GAP, PER_OUTPUT_TOKEN, E2E, QUEUE, PREFILL, DECODE, ITERATION = (h.start for h in HISTOGRAMS)
