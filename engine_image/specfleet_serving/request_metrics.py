"""What a request leaves behind when it comes, goes on and ends: the histograms of its stages.

Part of `metrics`; names, texts and bounds are vLLM's, but the time per output token begins at 0.5 ms.
"""

from typing import get_args

from prometheus_client import Counter

from specfleet_serving.events import Outcome, RequestTimes
from specfleet_serving.instruments import (
    FIRST_TOKEN_BOUNDS,
    PER_OUTPUT_TOKEN_BOUNDS,
    TOKEN_BOUNDS,
    Instruments,
)

__all__ = ["RequestMetrics"]


class RequestMetrics:
    """Outcomes and times of requests."""

    def __init__(self, make: Instruments) -> None:
        finished = Counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            [*make.labels, "finished_reason"],
            registry=make.registry,
        )
        self._finished = {
            outcome: finished.labels(**make.labels, finished_reason=outcome) for outcome in get_args(Outcome)
        }
        self._first_token = make.histogram(
            "time_to_first_token_seconds", "Histogram of time to first token in seconds.", FIRST_TOKEN_BOUNDS
        )
        self._gap = make.histogram(
            "inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds: one observation per output event of a request, "
            "which may carry several tokens.",
            TOKEN_BOUNDS,
        )
        self._per_output_token = make.histogram(
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            PER_OUTPUT_TOKEN_BOUNDS,
        )
        self._e2e = make.histogram(
            "e2e_request_latency_seconds", "Histogram of e2e request latency in seconds."
        )
        self._queue_time = make.histogram(
            "request_queue_time_seconds", "Histogram of time spent in WAITING phase for request."
        )
        self._prefill_time = make.histogram(
            "request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request."
        )
        self._decode_time = make.histogram(
            "request_decode_time_seconds", "Histogram of time spent in DECODE phase for request."
        )

    def count_first_token(self, seconds: float) -> None:
        """Observe the time from arrival to a request's first token."""
        self._first_token.observe(seconds)

    def count_gap(self, seconds: float) -> None:
        """Observe the time between two output events of a request."""
        self._gap.observe(seconds)

    def count_finished(self, outcome: Outcome, times: RequestTimes, now: float) -> None:
        """Count a request that left, for whatever reason, with the times of its stages."""
        self._finished[outcome].inc()
        self._e2e.observe(now - times.arrived)
        if times.admitted is None:
            return
        self._queue_time.observe(times.admitted - times.arrived)
        if times.first_token is None or times.last_token is None:
            return
        decode = times.last_token - times.first_token
        self._prefill_time.observe(times.first_token - times.admitted)
        self._decode_time.observe(decode)
        self._per_output_token.observe(decode / (times.tokens - 1) if times.tokens > 1 else 0.0)
