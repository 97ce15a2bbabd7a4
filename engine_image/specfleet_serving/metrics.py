"""Every metric an engine exposes, under vLLM's names and meanings, and specfleet's own.

One `Metrics` per process, with its own registry; `requests` and `drafts` are parts of it. All series that can
be known are there at 0 from the start: an absent counter is "no data" to the operator. Source:
design/contracts.md, "Metrics that an engine must expose".
"""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from specfleet_serving.core import Limits, Load, Step
from specfleet_serving.draft_metrics import DraftMetrics
from specfleet_serving.events import Delivered
from specfleet_serving.instruments import ENGINE, ITERATION_BOUNDS, Instruments, total
from specfleet_serving.request_metrics import RequestMetrics
from specfleet_serving.schedule import Document, Reason
from specfleet_serving.schedule_metrics import ScheduleMetrics


class Metrics:
    """The registry of one engine process."""

    def __init__(self, model_name: str, limits: Limits) -> None:
        self.registry = CollectorRegistry()
        self._make = Instruments(self.registry, model_name)
        ProcessCollector(registry=self.registry)
        self._declare_load(limits)
        self._declare_tokens()
        self.requests = RequestMetrics(self._make)
        self.drafts = DraftMetrics(self._make, limits.max_depth)
        self._schedule = ScheduleMetrics(self.registry, limits.max_depth)
        self._proposer_seconds = Counter(
            "specfleet_proposer_seconds",
            "Time of decode steps spent in the proposer; planning is not part of it.",
            registry=self.registry,
        )
        self._verify_seconds = Counter(
            "specfleet_verify_seconds", "Time of decode steps spent verifying.", registry=self.registry
        )
        self._failed_steps = Counter(
            "specfleet_failed_steps",
            "Steps that raised or gave no request usable numbers, failed self-checks included.",
            registry=self.registry,
        )

    def render(self) -> bytes:
        """Write the page of ``/metrics`` in Prometheus' text format."""
        return generate_latest(self.registry)

    def count_load(self, load: Load) -> None:
        """Set the gauges of load."""
        self._running.set(load.running)
        self._waiting.set(load.waiting)
        self._kv_usage.set(load.kv_usage)

    def count_schedule(self, document: Document) -> None:
        """Report the schedule in force; an older fence's series goes away."""
        self._schedule.count_schedule(document)

    def count_refused_schedule(self, reason: Reason) -> None:
        """Count a schedule file that was not followed."""
        self._schedule.count_refused(reason)

    def count_refused_request(self) -> None:
        """Count a request that found the queue full."""
        self._queue_full.inc()

    def count_failed_step(self) -> None:
        """Count a step that raised, or from which nobody got anything usable."""
        self._failed_steps.inc()

    def count_step(self, step: Step, delivered: Sequence[Delivered]) -> None:
        """Count one step and what the users got from it."""
        self._prompt_tokens.inc(step.prompt_tokens)
        self._cached_tokens.inc(step.cached_prompt_tokens)
        self._preemptions.inc(step.preempted)
        generated = sum(sequence.tokens for sequence in delivered)
        self._generated.inc(generated)
        self._iteration.observe(step.prompt_tokens + generated)
        for sequence in delivered:
            if sequence.gap_seconds is not None:
                self.requests.count_gap(sequence.gap_seconds)
            self.drafts.count(sequence)
        if step.decoding:
            self._schedule.count_step(step.depth, step.decoding, step.seconds)
            self._proposer_seconds.inc(step.proposer_seconds)
            self._verify_seconds.inc(step.verify_seconds)

    def speculation(self) -> dict[str, int | list[int]]:
        """Give the speculation counters for ``GET /v1/speculation``."""
        return {**self.drafts.counts(), "stepsPerDepth": [total(counter) for counter in self._schedule.steps]}

    def _declare_load(self, limits: Limits) -> None:
        self._running = self._make.gauge(
            "num_requests_running", "Number of requests in model execution batches."
        )
        self._waiting = self._make.gauge(
            "num_requests_waiting", "Number of requests waiting to be processed."
        )
        self._kv_usage = self._make.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        cache = {
            "engine": ENGINE,
            "block_size": str(limits.kv_block_size),
            "num_gpu_blocks": str(limits.kv_tokens // limits.kv_block_size),
            "kv_cache_size_tokens": str(limits.kv_tokens),
        }
        info = Gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            list(cache),
            registry=self.registry,
        )
        info.labels(**cache).set(1)
        refused = Counter(
            "vllm:admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            ["model_name", "reason"],
            registry=self.registry,
        )
        self._queue_full = refused.labels(self._make.labels["model_name"], "max_num_queued_reqs")

    def _declare_tokens(self) -> None:
        self._preemptions = self._make.counter(
            "num_preemptions", "Cumulative number of preemption from the engine."
        )
        self._prompt_tokens = self._make.counter("prompt_tokens", "Number of prefill tokens processed.")
        self._cached_tokens = self._make.counter(
            "prompt_tokens_cached", "Number of cached prompt tokens (local + external)."
        )
        self._generated = self._make.counter("generation_tokens", "Number of generation tokens processed.")
        self._iteration = self._make.histogram(
            "iteration_tokens_total", "Histogram of number of tokens per engine_step.", ITERATION_BOUNDS
        )
