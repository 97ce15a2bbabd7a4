"""The page that a pod shows Prometheus: vLLM's names, labels and bounds, and specfleet's own counters.

The order and the labels are those of the built-in engine; a test compares the two. Source:
design/contracts.md, "Metrics that an engine must expose".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from specfleet.simulator import layout

MODEL = "simulated"
REASONS = (
    *("file_gone", "unreadable", "not_json", "unknown_format", "wrong_type", "unsorted"),
    *("depth_out_of_range", "old_version", "lower_fence"),
)
_SCALARS = (
    ("vllm:spec_decode_num_drafts_total", layout.DRAFTS),
    ("vllm:spec_decode_num_draft_tokens_total", layout.DRAFT_TOKENS),
    ("vllm:spec_decode_num_accepted_tokens_total", layout.ACCEPTED),
    ("vllm:num_preemptions_total", layout.PREEMPTIONS),
    ("vllm:prompt_tokens_total", layout.PROMPT),
    ("vllm:prompt_tokens_cached_total", layout.CACHED),
    ("vllm:generation_tokens_total", layout.GENERATED),
)
_OWN_SCALARS = (
    ("specfleet_proposer_seconds_total", layout.PROPOSER_SECONDS),
    ("specfleet_verify_seconds_total", layout.VERIFY_SECONDS),
)
_PER_DEPTH = (
    ("specfleet_steps_total", layout.STEPS),
    ("specfleet_step_seconds_total", layout.STEP_SECONDS),
    ("specfleet_sequence_steps_total", layout.SEQUENCE_STEPS),
)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What stands at the moment of the scrape."""

    running: float
    waiting: float
    kv_usage: float


class Page:
    """Writes the page of one engine. ``asked``: names to write, None: all of them.

    ``rank`` is the label ``engine``, one per data-parallel rank.
    """

    def __init__(
        self, max_depth: int, kv_tokens: int, rank: int = 0, asked: Callable[[str], bool] | None = None
    ) -> None:
        self._engine = f'engine="{rank}"'
        self._common = f'{{{self._engine},model_name="{MODEL}"}}'
        self._asked = asked or (lambda _: True)
        self._own = rank == 0 or asked is not None
        lines = [line for line in self._lines(max_depth) if self._asked(line[0].partition("{")[0])]
        self._names = [name for name, _ in lines]
        self._at = np.array([at for _, at in lines], np.int64)
        self._kv = self._constant(kv_tokens)

    def render(
        self, counters: np.ndarray, gauges: Gauges, version: tuple[int, int], rejected: Mapping[str, int]
    ) -> str:
        """Write the page. ``version`` is (fence, version) of the schedule in force."""
        values = np.concatenate((counters, np.zeros(0)))
        for histogram in layout.HISTOGRAMS:
            block = slice(histogram.start, histogram.sum_at)
            np.cumsum(counters[block], out=values[block])
        taken = values[self._at].tolist()
        text = [f"{name} {value!r}" for name, value in zip(self._names, taken, strict=True)]
        text.extend(f"{name} {value!r}" for name, value in self._moment(gauges, version, rejected))
        return "\n".join((*text, self._kv, "")) if self._kv else "\n".join((*text, ""))

    def _lines(self, max_depth: int) -> Iterator[tuple[str, int]]:
        for name, at in _SCALARS:
            yield name + self._common, at
        for position in range(max_depth):
            labels = f'{{{self._engine},model_name="{MODEL}",position="{position}"}}'
            yield f"vllm:spec_decode_num_accepted_tokens_per_pos_total{labels}", layout.ACCEPTED_AT + position
        for index, outcome in enumerate(layout.OUTCOMES):
            labels = f'{{{self._engine},finished_reason="{outcome}",model_name="{MODEL}"}}'
            yield f"vllm:request_success_total{labels}", layout.FINISHED + index
        for histogram in layout.HISTOGRAMS:
            yield from self._histogram(histogram)
        for name, at in _OWN_SCALARS:
            yield name, at
        for position in range(max_depth):
            yield f'specfleet_draft_positions_total{{position="{position}"}}', layout.DRAFTED_AT + position
        for name, start in _PER_DEPTH:
            for depth in range(max_depth + 1):
                yield f'{name}{{depth="{depth}"}}', start + depth

    def _histogram(self, histogram: layout.Histogram) -> Iterator[tuple[str, int]]:
        name, start, bounds = histogram
        for index, bound in enumerate((*map(repr, map(float, bounds)), "+Inf")):
            labels = f'{{{self._engine},le="{bound}",model_name="{MODEL}"}}'
            yield f"vllm:{name}_bucket{labels}", start + index
        yield f"vllm:{name}_count{self._common}", start + len(bounds)
        yield f"vllm:{name}_sum{self._common}", histogram.sum_at

    def _moment(
        self, gauges: Gauges, version: tuple[int, int], rejected: Mapping[str, int]
    ) -> Iterator[tuple[str, float]]:
        fence, number = version
        found: list[tuple[str, str, float]] = [
            ("vllm:num_requests_running", self._common, gauges.running),
            ("vllm:num_requests_waiting", self._common, gauges.waiting),
            ("vllm:kv_cache_usage_perc", self._common, gauges.kv_usage),
            ("specfleet_schedule_version", f'{{fence="{fence}"}}', float(number)),
        ]
        found.extend(
            ("specfleet_schedule_rejected_total", f'{{reason="{reason}"}}', float(rejected.get(reason, 0)))
            for reason in REASONS
        )
        return ((name + labels, value) for name, labels, value in found if self._asked(name))

    def _constant(self, kv_tokens: int) -> str:
        if not self._asked("vllm:cache_config_info"):
            return ""
        blocks = f'block_size="16",{self._engine},kv_cache_size_tokens="{kv_tokens}"'
        return f'vllm:cache_config_info{{{blocks},num_gpu_blocks="{kv_tokens // 16}"}} 1.0'
