"""`SpeculativeDeployment` v1alpha1 as a whole, and every model below it under one import.

Specs forbid unknown fields; a status is read with unknown fields ignored, since a newer operator may have
written it. Source: design/api.md.
"""

import re
from typing import Any, ClassVar

from specfleet.api.engine_spec import EngineSpec, SimulatedSpec
from specfleet.api.env_vars import EnvSource, EnvVar, SecretKey
from specfleet.api.fields import Reported, Written
from specfleet.api.model_spec import ModelSpec
from specfleet.api.pod_settings import PodSettings, Resources, Toleration, TopologySpread
from specfleet.api.pod_volumes import (
    ConfigMapVolume,
    EmptyDir,
    PersistentVolumeClaim,
    SecretVolume,
    Volume,
    VolumeMount,
)
from specfleet.api.rules import Rule
from specfleet.api.spec import PoolSpec, Spec
from specfleet.api.speculation_spec import DepthSpec, NgramSpec, ProposerSpec, SpeculationSpec
from specfleet.api.status import (
    Condition,
    DecisionStatus,
    Fault,
    Gain,
    HardOffStatus,
    Measured,
    PoolStatus,
    Quantiles,
    Recommendation,
    ScheduleStatus,
    SliceStatus,
    Status,
    Summary,
)
from specfleet.api.tuning_spec import Objectives, PoolTuning, ScheduleRow, TuningSpec

__all__ = [
    "Condition",
    "ConfigMapVolume",
    "DecisionStatus",
    "DepthSpec",
    "EmptyDir",
    "EngineSpec",
    "EnvSource",
    "EnvVar",
    "Fault",
    "Gain",
    "HardOffStatus",
    "Measured",
    "ModelSpec",
    "NgramSpec",
    "Objectives",
    "PersistentVolumeClaim",
    "PodSettings",
    "PoolSpec",
    "PoolStatus",
    "PoolTuning",
    "ProposerSpec",
    "Quantiles",
    "Recommendation",
    "Reported",
    "Resources",
    "ScheduleRow",
    "ScheduleStatus",
    "SecretKey",
    "SecretVolume",
    "SimulatedSpec",
    "SliceStatus",
    "Spec",
    "SpeculationSpec",
    "SpeculativeDeployment",
    "Status",
    "Summary",
    "Toleration",
    "TopologySpread",
    "TuningSpec",
    "Volume",
    "VolumeMount",
    "Written",
]

GROUP = "specfleet.dev"
VERSION = "v1alpha1"
KIND = "SpeculativeDeployment"
PLURAL = "speculativedeployments"

MAX_NAME = 63
_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"


class SpeculativeDeployment(Reported):
    """A fleet of LLM pods that decode speculatively, kept at the depth that pays."""

    metadata: dict[str, Any]
    spec: Spec
    """What is wanted."""
    status: Status = Status()
    """What specfleet sees and decided. Written by the operator only."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"metadata.name is the name of a Service and the value of a label: at most {MAX_NAME} lower-case "
            "letters, digits and '-', starting with a letter",
            f"self.metadata.name.matches('{_NAME}')",
            lambda own: _is_name(own.metadata.get("name", "")),
            field="metadata.name",
        ),
    )

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


def _is_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= MAX_NAME and re.fullmatch(_NAME, name) is not None
