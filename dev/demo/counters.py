"""The counters of an engine pod: read from its metrics page, kept raw, differenced over a window.

The page is read straight from the pod, not through Prometheus: the figures are exact, and hold in an outage.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

# Our names for the series that are kept. The second part is the label that splits a counter.
SERIES: Mapping[str, tuple[str, str | None]] = {
    "vllm:num_requests_running": ("running", None),
    "vllm:num_requests_waiting": ("waiting", None),
    "vllm:kv_cache_usage_perc": ("kvUsage", None),
    "vllm:spec_decode_num_drafts_total": ("drafts", None),
    "vllm:spec_decode_num_draft_tokens_total": ("draftTokens", None),
    "vllm:spec_decode_num_accepted_tokens_total": ("acceptedTokens", None),
    "vllm:generation_tokens_total": ("generatedTokens", None),
    "vllm:num_preemptions_total": ("preemptions", None),
    "vllm:time_to_first_token_seconds_count": ("firstTokens", None),
    "vllm:inter_token_latency_seconds_sum": ("decodeSeconds", None),
    "vllm:request_queue_time_seconds_sum": ("queueSeconds", None),
    "vllm:request_queue_time_seconds_count": ("queued", None),
    "specfleet_schedule_version": ("scheduleVersion", None),
    "specfleet_schedule_rejected_total": ("schedulesRejected", "reason"),
    "specfleet_steps_total": ("steps", "depth"),
    "specfleet_step_seconds_total": ("stepSeconds", "depth"),
    "specfleet_sequence_steps_total": ("sequenceSteps", "depth"),
    "specfleet_operator_schedule_pushes_total": ("schedulePushes", "kind"),
}


def read_page(text: str) -> dict[str, Any]:
    """Pick the kept series out of a metrics page; those split by a label become mappings."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("#") or (match := _LINE.match(line)) is None:
            continue
        name, labels, value = match.groups()
        if name not in SERIES:
            continue
        key, split = SERIES[name]
        if split is None:
            found[key] = float(value)
        else:
            label = dict(_LABEL.findall(labels or "")).get(split, "")
            found.setdefault(key, {})[label] = float(value)
    return found


@dataclass(frozen=True, slots=True)
class Window:
    """What the pods did between two samples, summed over them. None: nothing to divide by."""

    seconds: float
    tokens: float  # generated
    mean_depth: float | None
    accepted_length: float | None  # tokens per decode step of a sequence
    token_seconds: float | None  # time per output token
    queue_seconds: float | None
    steps: float


def difference(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> Window:
    """Difference two samples of the recorder. A pod that is new or restarted in between is left out."""
    total: dict[str, float] = {}
    steps: dict[int, float] = {}
    sequence_steps = 0.0
    for pod, now in later["pods"].items():
        before = earlier["pods"].get(pod)
        if before is None or now["generatedTokens"] < before["generatedTokens"]:
            continue
        for key in ("generatedTokens", "firstTokens", "decodeSeconds", "queueSeconds", "queued"):
            total[key] = total.get(key, 0.0) + now[key] - before[key]
        for depth, value in now["steps"].items():
            steps[int(depth)] = steps.get(int(depth), 0.0) + value - before["steps"].get(depth, 0.0)
        sequence_steps += sum(now["sequenceSteps"].values()) - sum(before["sequenceSteps"].values())
    all_steps = sum(steps.values())
    decoded = total.get("generatedTokens", 0.0) - total.get("firstTokens", 0.0)
    return Window(
        seconds=later["time"] - earlier["time"],
        tokens=total.get("generatedTokens", 0.0),
        mean_depth=_ratio(sum(depth * count for depth, count in steps.items()), all_steps),
        accepted_length=_ratio(decoded, sequence_steps),
        token_seconds=_ratio(total.get("decodeSeconds", 0.0), decoded),
        queue_seconds=_ratio(total.get("queueSeconds", 0.0), total.get("queued", 0.0)),
        steps=all_steps,
    )


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def rolling(
    samples: Sequence[Mapping[str, Any]], seconds: float
) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Give pairs of samples that are ``seconds`` apart or a little more, one for each sample to end at."""
    start = 0
    for later in samples:
        while start + 1 < len(samples) and later["time"] - samples[start + 1]["time"] >= seconds:
            start += 1
        if later["time"] - samples[start]["time"] >= seconds:
            yield samples[start], later
