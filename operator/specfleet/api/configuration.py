"""The operator's own configuration: chart values, mounted as one YAML file. Unknown keys are refused."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from specfleet.api.resource import Written


class MetricsSourceConfig(Written):
    """One Prometheus. Secrets are paths of mounted files and are read again on every request."""

    url: str
    ca_file: str | None = None
    bearer_token_file: str | None = None
    basic_username_file: str | None = None
    basic_password_file: str | None = None
    tenant_header: str | None = None  # value of X-Scope-OrgID
    query_parameters: dict[str, str] = Field(default_factory=dict)
    timeout_seconds: float = Field(default=5.0, gt=0, le=60)


class Limits(Written):
    max_replicas: int = Field(default=64, ge=1)  # summed over the pools of one object
    max_gpus: int = Field(default=64, ge=0)


class EngineImages(Written):
    """Default images by engine; ``{version}`` stands for the engine's version. Empty: none by default."""

    builtin: str
    simulated: str
    vllm: str = ""
    sglang: str = ""
    vllm_plugin: str = ""
    preflight: str = ""


class ModelHub(Written):
    """Where hf:// leads. ``endpoint`` empty: the public hub; else a mirror that speaks its protocol."""

    endpoint: str = Field(default="", pattern="^(https?://[^/@]+(/.*)?)?$")


class TuningPace(Written):
    """Times of the tuner. Defaults are the design's; shorter ones suit small demos."""

    scrape_interval_seconds: float = Field(default=15.0, ge=1)
    push_cooldown_seconds: float = Field(default=120.0, ge=0)
    probe_seconds: float = Field(default=25.0, ge=1)
    probe_unknown_interval_seconds: float = Field(default=120.0, ge=1)
    probe_known_interval_seconds: float = Field(default=300.0, ge=1)


class LeaderElection(Written):
    """A leader gives up ``renew_deadline_seconds`` after it last renewed, before others may take over."""

    lease_name: str = "specfleet-operator"
    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = Field(default=2.0, gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.duration_seconds > self.renew_deadline_seconds > self.retry_seconds:
            raise PydanticCustomError(
                "leader_election",
                "durationSeconds ({duration}) must be more than renewDeadlineSeconds ({deadline}), and that "
                "more than retrySeconds ({retry}): else a leader that is cut off writes on while another "
                "leads, or gives up before it renews; write for example 15, 10 and 2",
                {
                    "duration": f"{self.duration_seconds:g}",
                    "deadline": f"{self.renew_deadline_seconds:g}",
                    "retry": f"{self.retry_seconds:g}",
                },
            )
        return self


class Configuration(Written):
    """All of it. ``watch_namespaces`` empty: the whole cluster."""

    watch_namespaces: tuple[str, ...] = ()
    metrics_sources: dict[str, MetricsSourceConfig] = Field(default_factory=dict)
    metrics_scope: str = 'specfleet_dev_pool!=""'
    images: EngineImages
    model_hub: ModelHub = ModelHub()
    allowed_service_accounts: tuple[str, ...] = ()
    limits: Limits = Limits()
    tuning: TuningPace = TuningPace()
    leader_election: LeaderElection = LeaderElection()
    resync_seconds: float = Field(default=600.0, ge=1)
    workers: int = Field(default=8, ge=1)
    health_port: int = 8080
    log_level: Literal["debug", "info", "warning", "error"] = "info"
