"""`SpeculativeDeployment` v1alpha1: what a user writes, and what status says back.

Specs forbid unknown fields; a status is read with unknown fields ignored, since a newer operator may have
written it. Descriptions become the text of ``kubectl explain``. Source: design/api.md.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

GROUP = "specfleet.dev"
VERSION = "v1alpha1"
KIND = "SpeculativeDeployment"
PLURAL = "speculativedeployments"


class Written(BaseModel):
    """Base of what users write: frozen, camelCase outside, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Reported(BaseModel):
    """Base of what specfleet reports: frozen, camelCase outside, unknown fields ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class ModelSpec(Written):
    uri: str  # pvc://claim/path or file:///path/in/engine/image
    served_name: str = ""  # default: metadata.name


class SimulatedSpec(Written):
    """Cost and acceptance of the simulated engine; only with engine.type simulated."""

    repetitive_acceptance_percent: int = 85
    free_acceptance_percent: int = 30
    step_time: str = "20ms"  # memory-bound step at batch 1
    knee_tokens: int = 32  # tokens a step carries before it becomes compute-bound
    kv_cache_tokens: int = 65536


class SecretKey(Written):
    name: str
    key: str


class EnvSource(Written):
    secret_key_ref: SecretKey | None = None
    config_map_key_ref: SecretKey | None = None


class EnvVar(Written):
    name: str
    value: str | None = None
    value_from: EnvSource | None = None


class EngineSpec(Written):
    type: Literal["builtin", "simulated"]
    image: str = ""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    max_model_len: int = 2048
    max_num_seqs: int = 16
    extra_args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    simulated: SimulatedSpec | None = None


class DepthSpec(Written):
    initial: int = 2
    max: int = 5


class NgramSpec(Written):
    min_match: int = 2
    max_match: int = 5


class SpeculationSpec(Written):
    method: Literal["ngram", "none"]
    depth: DepthSpec = DepthSpec()
    ngram: NgramSpec | None = None


class Objectives(Written):
    """Every field optional, so that a pool can override one of them."""

    time_per_output_token: str | None = None
    time_to_first_token: str | None = None
    queue_delay: str | None = None
    kv_headroom_percent: int | None = None  # default 10


class ScheduleRow(Written):
    max_requests: int | None = None
    depth: int


class TuningSpec(Written):
    mode: Literal["Observe", "Recommend", "Enforce"] = "Recommend"
    paused: bool = False
    metrics_source: str = "default"
    max_pushes_per_hour: int = 6
    schedule: tuple[ScheduleRow, ...] | None = None


class PoolTuning(Written):
    """Overrides of `TuningSpec` for one pool."""

    mode: Literal["Observe", "Recommend", "Enforce"] | None = None
    paused: bool | None = None
    max_pushes_per_hour: int | None = None
    schedule: tuple[ScheduleRow, ...] | None = None


class Resources(Written):
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}


class PodSettings(Written):
    """The allow-listed part of a pod; nothing else can be set."""

    resources: Resources = Resources()
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    affinity: dict[str, Any] = {}
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    priority_class_name: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    service_account_name: str = ""
    volumes: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[dict[str, Any], ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PoolSpec(Written):
    name: str
    replicas: int | None = None  # None: an autoscaler owns it
    objectives: Objectives = Objectives()
    tuning: PoolTuning = PoolTuning()
    template: PodSettings = PodSettings()


class Spec(Written):
    model: ModelSpec
    engine: EngineSpec
    speculation: SpeculationSpec
    objectives: Objectives = Objectives()
    tuning: TuningSpec = TuningSpec()
    pools: tuple[PoolSpec, ...]


class Condition(Reported):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    observed_generation: int | None = None
    last_transition_time: str


class SliceStatus(Reported):
    name: str
    replicas: int
    ready: int
    updated: int


class ScheduleStatus(Reported):
    version: int
    table: tuple[ScheduleRow, ...]
    pushed_at: str
    applied_replicas: int


class Quantiles(Reported):
    """Milliseconds, kept as strings: CRDs should not carry floats."""

    p50: str
    p95: str


class Gain(Reported):
    value: str
    against: Literal["depth0"]


class Measured(Reported):
    """Fractional figures are decimal strings: a CRD should not carry floats. Absent: no data."""

    sampled_at: str
    coverage_percent: int
    acceptance_rate: str | None = None
    accepted_length: str | None = None
    survival: tuple[str, ...] = ()
    mean_depth: str | None = None
    time_per_output_token_ms: str | None = None
    time_to_first_token_ms: str | None = None
    queue_delay_ms: str | None = None
    kv_headroom_percent: int | None = None
    running_requests: str | None = None
    output_tokens_per_second: str | None = None
    completed_requests_per_second: str | None = None
    gain_percent: Gain | None = None


class Recommendation(Reported):
    table: tuple[ScheduleRow, ...]
    expected_gain_percent: str


class DecisionStatus(Reported):
    time: str
    action: str  # Hold, Push, Probe, ...
    reason: str


class Fault(Reported):
    """Why the tuner cannot trust the actuator; reconcile turns it into condition Degraded."""

    reason: Literal["ScheduleNotApplied", "ScheduleNotEffective"]
    message: str


class PoolStatus(Reported):
    name: str
    # written by reconcile
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    slices: tuple[SliceStatus, ...] = ()
    # written by the tuner
    state: Literal["Pending", "Learning", "Active", "SafeHold", "SoftOff"] | None = None
    schedule: ScheduleStatus | None = None
    probe: str | None = None
    recommendation: Recommendation | None = None
    measured: Measured | None = None
    last_decision: DecisionStatus | None = None
    fault: Fault | None = None


class Summary(Reported):
    """One string for each printer column, pools joined by a comma. Written by the tuner."""

    state: str = ""
    depth: str = ""
    accepted: str = ""
    time_per_output_token: str = ""
    gain: str = ""
    kv_free: str = ""
    queue: str = ""
    schedule: str = ""


class Status(Reported):
    observed_generation: int | None = None
    fingerprint: str | None = None
    ready: str = ""  # "4/5", printer column; reconcile
    summary: Summary = Summary()  # tuner
    pools: tuple[PoolStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()


class SpeculativeDeployment(Reported):
    """One resource as the API server gives it."""

    metadata: dict[str, Any]
    spec: Spec
    status: Status = Status()

    @property
    def name(self) -> str:
        return str(self.metadata["name"])

    @property
    def namespace(self) -> str:
        return str(self.metadata["namespace"])

    @property
    def uid(self) -> str:
        return str(self.metadata["uid"])

    @property
    def generation(self) -> int:
        return int(self.metadata["generation"])
