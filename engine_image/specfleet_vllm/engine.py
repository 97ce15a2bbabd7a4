"""What of vLLM the plug-in uses, as types: the list to compare with a new release of vLLM.

All of it is internal to vLLM, and compared with the released sources of 0.32.0 and 0.33.0 in
tests/unit/vllm_plugin/test_names.py.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

__all__ = ["Deliveries", "ModelOutput", "Request", "Scheduled", "Scheduler"]


class Request(Protocol):
    """A request of the scheduler. ``is_prefill_chunk``: after its last scheduled step it still reads."""

    request_id: str
    is_prefill_chunk: bool
    max_tokens: int
    num_output_tokens: int


class Scheduled(Protocol):
    """One step as scheduled (`SchedulerOutput`).

    ``scheduled_spec_decode_tokens`` are the drafts that this step verifies, by request;
    ``num_spec_tokens_to_schedule`` is the depth that its end drafts at, for the step after it.
    """

    num_scheduled_tokens: Mapping[str, int]
    scheduled_spec_decode_tokens: Mapping[str, Sequence[int]]
    num_spec_tokens_to_schedule: int
    num_invalid_spec_tokens: Mapping[str, int] | None


class ModelOutput(Protocol):
    """What the model gave (`ModelRunnerOutput`): for each request its accepted drafts and one more token."""

    sampled_token_ids: Sequence[Sequence[int]]
    req_id_to_index: Mapping[str, int]


class _Delivered(Protocol):
    request_id: str
    new_token_ids: Sequence[int]


class Deliveries(Protocol):
    """What one client gets from a step, cut at stop tokens and length limits (`EngineCoreOutputs`)."""

    outputs: Sequence[_Delivered]


class Scheduler(Protocol):
    """vLLM's scheduler. ``dynamic_sd_lookup``: the depth for each number of scheduled requests.

    It has ``max_num_seqs`` + 1 entries, the first one unused, and is None without a schedule at start.
    """

    running: Sequence[Request]
    requests: Mapping[str, Request]
    num_spec_tokens: int
    dynamic_sd_lookup: list[int] | None

    def get_num_unfinished_requests(self) -> int: ...
