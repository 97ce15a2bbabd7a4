"""A Prometheus that plays pods of the store: they follow the mounted schedule and serve made-up traffic."""

import contextlib
from collections import defaultdict

from tests.integration.fake_api import Store
from tests.unit.tuning.bench import REPETITIVE, Bench, Traffic

from specfleet.api.kinds import CONFIG_MAP
from specfleet.api.schedule import Document
from specfleet.telemetry.source import Series

SCRAPE = 15.0
Labels = tuple[tuple[str, str], ...]


class PlayedPrometheus:
    """Call `scrape` once per interval; `query` answers with the last three scrapes."""

    def __init__(
        self, store: Store, pods: tuple[str, ...], config_map: str = "chat-main-active-schedule"
    ) -> None:
        self.store = store
        self.pods = pods
        self.config_map = config_map
        self.traffic: Traffic = REPETITIVE
        self.error: Exception | None = None
        self.deaf = False  # pods do not follow the schedule
        self.silent: tuple[str, ...] = ()  # pods that are not scraped
        self.renamed: tuple[str, ...] = ()  # series that these engines no longer have
        self.queries = 0
        self._benches = {pod: Bench(self.traffic, seed=i) for i, pod in enumerate(pods)}
        self._totals: dict[str, dict[Labels, float]] = {pod: defaultdict(float) for pod in pods}
        self._scrapes: list[tuple[float, dict[str, dict[Labels, float]]]] = []

    def scrape(self, now: float) -> None:
        text = self.store.get(CONFIG_MAP, "llm", self.config_map)["data"]["schedule.json"]
        document = None
        with contextlib.suppress(ValueError):  # engines keep their last good table
            document = Document.from_json(text)
        for pod in self.pods:
            bench = self._benches[pod]
            bench.traffic = self.traffic
            if document is not None and not self.deaf:
                bench.in_force = document
            self._count(pod, bench)
        seen = {pod: dict(self._totals[pod]) for pod in self.pods if pod not in self.silent}
        self._scrapes = [*self._scrapes[-2:], (now, seen)]

    async def query(self, promql: str, at: float) -> list[Series]:
        self.queries += 1
        if self.error is not None:
            raise self.error
        samples: dict[tuple[str, Labels], list[tuple[float, float]]] = defaultdict(list)
        for stamp, pods in self._scrapes:
            if at - 3 * SCRAPE < stamp <= at:
                for pod, values in pods.items():
                    for labels, value in values.items():
                        if labels[0][1] in promql and labels[0][1] not in self.renamed:
                            samples[(pod, labels)].append((stamp, value))
        return [
            Series({"namespace": "llm", "pod": pod, **dict(labels)}, tuple(values))
            for (pod, labels), values in samples.items()
        ]

    def _count(self, pod: str, bench: Bench) -> None:
        counts = bench._counts([(bench.in_force, SCRAPE)])
        totals = self._totals[pod]
        for name, by_label, label, shift in (
            ("specfleet_steps_total", counts.steps, "depth", 0),
            ("specfleet_step_seconds_total", counts.step_seconds, "depth", 0),
            ("specfleet_sequence_steps_total", counts.sequence_steps, "depth", 0),
            ("specfleet_draft_positions_total", counts.draft_positions, "position", 1),
            (
                "vllm:spec_decode_num_accepted_tokens_per_pos_total",
                counts.accepted_positions,
                "position",
                1,
            ),
        ):
            for key, value in by_label.items():
                totals[(("__name__", name), (label, str(key - shift)))] += value
        for name, total in (
            ("vllm:spec_decode_num_drafts_total", counts.drafts),
            ("vllm:spec_decode_num_draft_tokens_total", counts.draft_tokens),
            ("vllm:spec_decode_num_accepted_tokens_total", counts.accepted_tokens),
            ("vllm:generation_tokens_total", counts.generation_tokens),
            ("vllm:prompt_tokens_total", 0.0),
            ("vllm:prompt_tokens_cached_total", 0.0),
            ("vllm:time_to_first_token_seconds_count", 0.0),
            ("vllm:inter_token_latency_seconds_sum", counts.inter_token_seconds),
            ("vllm:inter_token_latency_seconds_count", 0.0),
            ("vllm:request_queue_time_seconds_sum", 0.0),
            ("vllm:request_queue_time_seconds_count", 0.0),
            ("vllm:num_preemptions_total", counts.preemptions),
            ("vllm:request_success_total", counts.completions),
        ):
            reason = (("finished_reason", "stop"),) if name.endswith("success_total") else ()
            totals[(("__name__", name), *reason)] += total or 0.0
        totals[(("__name__", "vllm:time_to_first_token_seconds_bucket"), ("le", "+Inf"))] = 0.0
        totals[(("__name__", "vllm:num_requests_running"),)] = min(self.traffic.users, 16)
        totals[(("__name__", "vllm:num_requests_waiting"),)] = max(0, self.traffic.users - 16)
        totals[(("__name__", "vllm:kv_cache_usage_perc"),)] = 0.2
        size = ("kv_cache_size_tokens", "8000")
        totals[(("__name__", "vllm:cache_config_info"), size)] = 1.0
        stale = [key for key in totals if key[0][1] == "specfleet_schedule_version"]
        for key in stale:
            del totals[key]
        fence = ("fence", str(bench.in_force.fence))
        totals[(("__name__", "specfleet_schedule_version"), fence)] = bench.in_force.version
