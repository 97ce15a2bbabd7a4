"""What one pod did between two scrapes: differences of counters, and the gauges at the end.

Telemetry makes these values, everything in this package reads them. "No data" is None or a missing key,
never 0. Source: design/tuning.md, section 3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

PodKey = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True)
class Counts:
    """Differences over one interval. Depths as scheduled, positions from 1, buckets by bound in seconds.

    ``accepted_positions`` may hold tokens that a stop or the length limit cut (E4), ``delivered_positions``
    do not; few engines count the latter. ``inter_token_events`` are outputs of one request in one step; None:
    the engine counts tokens alone. ``finished_tokens`` and ``finished_verifications`` (steps that verified a
    draft) are those of requests that ended, where an engine adds them only then.
    """

    steps: Mapping[int, float] = field(default_factory=dict)
    step_seconds: Mapping[int, float] = field(default_factory=dict)
    sequence_steps: Mapping[int, float] = field(default_factory=dict)
    draft_positions: Mapping[int, float] = field(default_factory=dict)
    accepted_positions: Mapping[int, float] = field(default_factory=dict)
    delivered_positions: Mapping[int, float] = field(default_factory=dict)
    first_token_buckets: Mapping[float, float] = field(default_factory=dict)
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    cached_prompt_tokens: float | None = None
    first_tokens: float | None = None
    inter_token_seconds: float | None = None
    inter_token_events: float | None = None
    queue_seconds: float | None = None
    queued_requests: float | None = None
    preemptions: float | None = None
    completions: float | None = None
    finished_tokens: float | None = None
    finished_verifications: float | None = None

    @property
    def all_steps(self) -> float:
        return sum(self.steps.values())

    @property
    def all_sequence_steps(self) -> float:
        return sum(self.sequence_steps.values())

    @property
    def read_prompt_tokens(self) -> float:
        """Prompt tokens that were computed; 0 where the engine does not say."""
        return max(0.0, (self.prompt_tokens or 0.0) - (self.cached_prompt_tokens or 0.0))

    @property
    def decode_tokens(self) -> float | None:
        """Tokens from decode steps: a request's first token comes from its prompt."""
        if self.generation_tokens is None or self.first_tokens is None:
            return None
        return self.generation_tokens - self.first_tokens


@dataclass(frozen=True, slots=True)
class PodInterval:
    """One pod over one interval. Times are seconds since the epoch, by Prometheus' own sample stamps.

    ``version`` is (fence, version) of the schedule in force at both ends, None where the pod did not say.
    ``restarted``: a counter fell. ``stuck``: requests are running and nothing has moved for 3 intervals.
    ``not_live``: why the engine follows no schedule file, in its word; None: it does.
    ``aligned``: all counters were read at once. ``depth`` and ``accepted_length`` (tokens of a decode step)
    are what an engine says of itself where it does not count steps by depth. ``positions_assumed``: counts by
    position follow from a model, since the engine has none or drafts of any length. ``not_numbers`` names
    metrics that read NaN or infinite at the end.
    """

    pod: PodKey
    start: float
    end: float
    counts: Counts
    version_at_start: tuple[int, int] | None = None
    version: tuple[int, int] | None = None
    restarted: bool = False
    stuck: bool = False
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    kv_capacity_tokens: float | None = None
    aligned: bool = True
    depth: float | None = None
    accepted_length: float | None = None
    positions_assumed: bool = False
    not_live: str | None = None
    not_numbers: tuple[str, ...] = ()

    @property
    def cached_tokens(self) -> float | None:
        """Tokens in the KV cache at the end; None: the engine does not say."""
        if self.kv_usage is None or self.kv_capacity_tokens is None:
            return None
        return self.kv_usage * self.kv_capacity_tokens

    @property
    def seconds(self) -> float:
        return self.end - self.start


def pooled(counts: Iterable[Counts]) -> Counts:
    """Sum counters over pods first; every ratio is taken afterwards (trap P13)."""
    values: dict[str, float | dict[float, float] | None] = {}
    for one in counts:
        for item in fields(Counts):
            value = getattr(one, item.name)
            if isinstance(value, Mapping):
                total = values.setdefault(item.name, {})
                assert isinstance(total, dict)
                for key, part in value.items():
                    total[key] = total.get(key, 0.0) + part
            elif value is not None:
                before = values.get(item.name)
                values[item.name] = value + (before if isinstance(before, float | int) else 0.0)
    return Counts(**values)  # type: ignore[arg-type]
