"""What status says back. Read with unknown fields ignored, since a newer operator may have written it.

Two field managers write it: ``specfleet`` (reconcile) and ``specfleet-tuner``. Lists are therefore list maps,
and every field but the keys is optional, so that each manager can apply its own part alone. Fractional
figures are decimal strings: a CRD should not carry floats.
"""

from typing import Annotated, Literal

from pydantic import Field

from specfleet.api.fields import Reported
from specfleet.api.rules import ListMap
from specfleet.api.tuning_spec import ScheduleRow

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Condition(Reported):
    """One aspect of the resource, in the usual Kubernetes form."""

    type: str
    """Ready, Progressing, Degraded, ProposerCompatible, MetricsAvailable or SpeculationActive."""
    status: Literal["True", "False", "Unknown"]
    """Whether the aspect holds."""
    reason: str
    """One word that says why."""
    message: str = ""
    """A sentence that says why, and what to do."""
    observed_generation: int | None = None
    """metadata.generation that this was found for."""
    last_transition_time: Time
    """When status last changed."""


class SliceStatus(Reported):
    """Part of a pool under one configuration."""

    name: str
    """active."""
    replicas: int
    """Pods that exist."""
    ready: int
    """Pods that serve."""
    updated: int
    """Pods at the current revision."""


class ScheduleStatus(Reported):
    """The schedule in force."""

    version: int
    """Version of the schedule document."""
    table: tuple[ScheduleRow, ...]
    """Its rows."""
    pushed_at: Time
    """When it was written."""
    applied_replicas: int
    """Ready pods that report this version."""


class Quantiles(Reported):
    """Quantiles in milliseconds."""

    p50: str
    """Median."""
    p95: str
    """95th percentile."""


class Gain(Reported):
    """What speculation gains in tokens per second."""

    value: str
    """Gain in percent; negative: a loss."""
    against: Literal["depth0"]
    """What it is compared with: depth0 is depth 0 measured on the same pods."""


class Measured(Reported):
    """What the pool's pods measured in the last window. An absent field: no data."""

    sampled_at: Time
    """End of the window."""
    coverage_percent: int
    """Pods that report, in percent of the pods expected."""
    acceptance_rate: str | None = None
    """Accepted drafted tokens divided by drafted tokens, 0..1."""
    accepted_length: str | None = None
    """Tokens per verification step, bonus token included."""
    survival: tuple[str, ...] = ()
    """Probability that at least 1, 2, ... drafted tokens are accepted in one step."""
    mean_depth: str | None = None
    """Depth that was scheduled, mean over the decode steps. A proposer may draft less than it may."""
    time_per_output_token_ms: str | None = None
    """Mean time per output token in milliseconds."""
    time_to_first_token_ms: Quantiles | None = None
    """Time to the first token in milliseconds."""
    queue_delay_ms: str | None = None
    """Mean wait before a request starts, in milliseconds."""
    kv_headroom_percent: int | None = None
    """Free KV-cache blocks in percent, of the fullest pod."""
    running_requests: str | None = None
    """Running requests of one pod, mean."""
    output_tokens_per_second: str | None = None
    """Output tokens per second of the whole pool."""
    completed_requests_per_second: str | None = None
    """Completed requests per second of the whole pool."""
    gain_percent: Gain | None = None
    """What speculation gains."""


class Recommendation(Reported):
    """In mode Recommend: what would be pushed."""

    table: tuple[ScheduleRow, ...]
    """Rows of the schedule."""
    expected_gain_percent: str
    """Expected gain in tokens per second against the schedule in force, in percent."""
    applied_by: Literal["live", "rollout", "fixed"] | None = None
    """What mode Enforce would do. live: engines follow within seconds, no pod restarts. rollout: pods restart
    one after the other. fixed: nothing; the engine has one depth, speculation.depth.initial."""


class DecisionStatus(Reported):
    """The tuner's last decision."""

    time: Time
    """When it was made."""
    action: str
    """What was decided: Hold, Push, Probe, ..."""
    reason: str
    """Why, with the numbers."""


class Fault(Reported):
    """Why the tuner cannot trust its pushes; reconcile turns it into condition Degraded."""

    reason: Literal["ScheduleNotApplied", "ScheduleNotEffective"]
    """ScheduleNotApplied: pods do not report the version. ScheduleNotEffective: their depth does not follow
    it."""
    message: str
    """Which pods, and the numbers."""


class HardOffStatus(Reported):
    """What the tuner found about serving without the proposer at all."""

    phase: Literal["Advised", "InForce"]
    """Advised: it would pay. Mode Enforce restarts the pods when few users meet it; in mode Recommend write
    speculation.method none. InForce: the pods serve without their proposer, or are being restarted for it."""
    since: Time
    """When that was found, or put in force."""
    until: Time | None = None
    """In force: when the proposer is tried again, as soon as the load is low."""
    proposer: str = ""
    """In force: hash of model, engine and speculation that it was decided about; a change of them ends it."""
    reason: str
    """Why, with the numbers."""


class PoolStatus(Reported):
    """State of one pool."""

    name: str
    """Name of the pool."""
    # written by reconcile
    replicas: int = 0
    """Pods that exist."""
    ready_replicas: int = 0
    """Pods that serve."""
    updated_replicas: int = 0
    """Pods at the current revision."""
    slices: Annotated[tuple[SliceStatus, ...], ListMap("name")] = ()
    """The same for each slice."""
    # written by the tuner
    state: Literal["Pending", "Learning", "Active", "SafeHold", "SoftOff", "HardOff"] | None = None
    """Pending: no pods or no data yet. Learning: too few samples. Active: tuned. SafeHold: kept as it is, for
    the reason in lastDecision. SoftOff: depth 0 pays best. HardOff: the pods serve without their proposer."""
    schedule: ScheduleStatus | None = None
    """The schedule in force."""
    probe: str | None = None
    """The probe that is running: a short trial of another depth."""
    recommendation: Recommendation | None = None
    """In mode Recommend: what would be pushed."""
    measured: Measured | None = None
    """What the pods measured in the last window."""
    last_decision: DecisionStatus | None = None
    """The tuner's last decision."""
    fault: Fault | None = None
    """Why the tuner cannot trust its pushes."""
    hard_off: HardOffStatus | None = None
    """Whether the pool is better off without its proposer. Absent: it is not, as far as is known."""


class Summary(Reported):
    """One string for each printer column, pools joined by a comma. Written by the tuner."""

    state: str = ""
    """State of each pool."""
    depth: str = ""
    """Mean depth of each pool."""
    accepted: str = ""
    """Tokens per verification step of each pool."""
    time_per_output_token: str = ""
    """Mean time per output token of each pool."""
    gain: str = ""
    """Gain of each pool."""
    kv_free: str = ""
    """Free KV-cache blocks of each pool."""
    queue: str = ""
    """Queue delay of each pool."""
    schedule: str = ""
    """Schedule in force of each pool."""


class Status(Reported):
    """What specfleet sees and decided. Written by the operator only."""

    observed_generation: int | None = None
    """metadata.generation that reconcile last acted on."""
    fingerprint: str | None = None
    """Hash of everything that makes a measurement comparable; a change starts a new baseline."""
    ready: str = ""
    """Serving and wanted pods, such as 4/5."""
    summary: Summary = Summary()
    """One string for each printer column."""
    pools: Annotated[tuple[PoolStatus, ...], ListMap("name")] = ()
    """State of each pool."""
    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    """Aspects of the resource with reason and message."""
