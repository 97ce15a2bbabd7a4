"""A scheduler with vLLM's names and as little behind them as the plug-in can be tried on."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specfleet_vllm.hooks import FollowsSchedule

SEATS = 16
MAX_DEPTH = 5
SUPERSET = [0, *[MAX_DEPTH] * SEATS]


@dataclass
class Request:
    request_id: str
    is_prefill_chunk: bool = False
    max_tokens: int = 100
    num_output_tokens: int = 0


@dataclass
class Step:
    num_scheduled_tokens: dict[str, int]
    scheduled_spec_decode_tokens: dict[str, list[int]]
    num_spec_tokens_to_schedule: int
    num_invalid_spec_tokens: dict[str, int] | None = None


@dataclass
class ModelOutput:
    sampled_token_ids: list[list[int]]
    req_id_to_index: dict[str, int]


@dataclass
class Delivered:
    request_id: str
    new_token_ids: list[int]


@dataclass
class Deliveries:
    outputs: list[Delivered]


@dataclass
class Base:
    """Schedules every running request, and drafts for each as many tokens as its list says."""

    num_spec_tokens: int = MAX_DEPTH
    dynamic_sd_lookup: list[int] | None = field(default_factory=lambda: list(SUPERSET))
    running: list[Request] = field(default_factory=list)
    drafts: dict[str, list[int]] = field(default_factory=dict)

    @property
    def requests(self) -> dict[str, Request]:
        return {one.request_id: one for one in self.running}

    def schedule(self, throttle_prefills: bool = False) -> Step:
        ids = [one.request_id for one in self.running]
        depth = self.num_spec_tokens
        if self.dynamic_sd_lookup is not None and ids:
            depth = self.dynamic_sd_lookup[len(ids)]
        drafts = {one: self.drafts[one] for one in ids if self.drafts.get(one)}
        self.drafts = {one: [7] * depth for one in ids}
        for one in self.running:
            one.is_prefill_chunk = False
        return Step({one: 1 + len(drafts.get(one, [])) for one in ids}, drafts, depth)

    def update_from_output(
        self, scheduler_output: Step, model_runner_output: ModelOutput
    ) -> dict[int, Deliveries]:
        found = self.requests
        outputs = []
        for one in scheduler_output.num_scheduled_tokens:
            request = found[one]
            tokens = model_runner_output.sampled_token_ids[model_runner_output.req_id_to_index[one]]
            kept = tokens[: request.max_tokens - request.num_output_tokens]
            request.num_output_tokens += len(kept)
            outputs.append(Delivered(one, kept))
        self.running = [one for one in self.running if one.num_output_tokens < one.max_tokens]
        return {0: Deliveries(outputs)}

    def get_num_unfinished_requests(self) -> int:
        return len(self.running)

    def shutdown(self) -> None:
        self.running = []


class Scheduler(FollowsSchedule, Base):
    engine_version = "0.32.0+cpu"
    step_names = frozenset(Step.__dataclass_fields__)


def answer(step: Step, tokens: int = 1) -> ModelOutput:
    """Give every scheduled request that many tokens."""
    ids = list(step.num_scheduled_tokens)
    return ModelOutput([[7] * tokens for _ in ids], {one: index for index, one in enumerate(ids)})


def advance(scheduler: Any, tokens: int = 1) -> Step:
    """Run one step of a scheduler."""
    step: Step = scheduler.schedule()
    scheduler.update_from_output(step, answer(step, tokens))
    return step


def write(path: Path, table: list[dict[str, int]], version: int = 1, fence: int = 1) -> None:
    """Write a schedule file as the kubelet does: complete, and in one move."""
    body = {"format": 1, "version": version, "fence": fence, "maxDepth": MAX_DEPTH, "table": table}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(body), encoding="utf-8")
    partial.rename(path)
