"""The allow-listed part of a pod: what a pool's template may set, and nothing else.

Who may create a resource may create pods in its namespace, so each field here is typed and each volume names
an object of the same namespace. Host access and privileges have no field. Shapes are those of the pod's own
fields, so that they can be copied. Source: design/api.md; reference/kopf-and-kubernetes.md, section 8.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specfleet.api.fields import (
    FreeForm,
    LabelKey,
    LabelValue,
    ObjectName,
    OptionalObjectName,
    Quantity,
    Written,
)
from specfleet.api.owned import OWNED_PREFIXES, REFUSED_ANNOTATION_PREFIXES
from specfleet.api.pod_volumes import Volume, VolumeMount
from specfleet.api.rules import ListMap, Rule, Rules


class Resources(Written):
    """What the scheduler reserves for the engine container, and where the kubelet stops it."""

    limits: Annotated[dict[str, Quantity], Field(max_length=32)] = Field(default_factory=dict)
    """Upper bounds by resource, such as nvidia.com/gpu, memory or cpu. Default: none."""
    requests: Annotated[dict[str, Quantity], Field(max_length=32)] = Field(default_factory=dict)
    """Reserved amounts by resource. Default: the limits."""


class Toleration(Written):
    """Lets pods run on nodes with a matching taint."""

    key: LabelKey | None = None
    """Key of the taint. Left out, with operator Exists: every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """Equal compares the value, Exists does not. Default: Equal."""
    value: LabelValue | None = None
    """Value of the taint; only with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Left out: every effect."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """Seconds a running pod stays after the taint appeared; only with effect NoExecute. Left out: for
    ever."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "value is only compared with operator Equal: drop value, or write operator: Equal",
            "self.operator != 'Exists' || !has(self.value)",
            lambda own: own.operator != "Exists" or own.value is None,
            field="value",
        ),
        Rule(
            "operator Equal compares one key: name the key, or write operator: Exists",
            "self.operator != 'Equal' || has(self.key)",
            lambda own: own.operator != "Equal" or own.key is not None,
            field="key",
        ),
        Rule(
            "tolerationSeconds needs effect: NoExecute",
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            lambda own: own.toleration_seconds is None or own.effect == "NoExecute",
            field="tolerationSeconds",
        ),
    )


class TopologySpread(Written):
    """Spreads this pool's pods; they are always what is counted, so there is no label selector."""

    topology_key: LabelKey
    """Node label whose values are the places to spread over, such as topology.kubernetes.io/zone."""
    max_skew: Annotated[int, Field(ge=1, le=1000)] = 1
    """Largest difference in pods between two places. Default: 1."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """What happens to a pod that would break maxSkew."""


def _without(prefixes: tuple[str, ...], field: str) -> Rule:
    tests = " && ".join(f"!key.startsWith('{prefix}')" for prefix in prefixes)
    return Rule(
        f"{field} must not use the prefixes {', '.join(prefixes)}, which specfleet writes or protects: "
        "choose another prefix",
        f"!has(self.{field}) || self.{field}.all(key, {tests})",
        lambda own: not any(key.startswith(prefixes) for key in getattr(own, field)),
        field=field,
    )


# A rule and no set: the list stays one field of whoever applied it.
PullSecrets = Annotated[
    tuple[ObjectName, ...],
    Field(max_length=8),
    Rules(
        Rule(
            "names a Secret more than once: keep one",
            "self.all(name, self.exists_one(other, other == name))",
            lambda names: len(set(names)) == len(names),
        )
    ),
]


class PodSettings(Written):
    """The allow-listed part of a pod; nothing else can be set."""

    resources: Resources = Resources()
    """Requests and limits of the engine container. Changing them rolls the pods and starts a new baseline."""
    node_selector: Annotated[dict[str, LabelValue], Field(max_length=32)] = Field(default_factory=dict)
    """Labels a node must have. Default: none. Changing it rolls the pods and starts a new baseline."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints the pods may run beside. Default: none. Changing it rolls the pods."""
    affinity: FreeForm = Field(default_factory=dict)
    """Affinity as in a pod, not checked by specfleet. Default: none. Changing it rolls the pods."""
    topology_spread_constraints: Annotated[
        tuple[TopologySpread, ...], Field(max_length=8), ListMap("topologyKey", "whenUnsatisfiable")
    ] = ()
    """How the pool's pods are spread over nodes or zones. Default: not. Changing it rolls the pods."""
    priority_class_name: OptionalObjectName = ""
    """PriorityClass of the pods. Default: the cluster's. Changing it rolls the pods."""
    image_pull_secrets: PullSecrets = ()
    """Names of Secrets with registry credentials. Default: none. Changing it rolls the pods."""
    service_account_name: OptionalObjectName = ""
    """Service account of the pods; the operator's configuration must allow it. Default: the namespace's
    default account. Its token is never mounted. Changing it rolls the pods."""
    volumes: Annotated[tuple[Volume, ...], Field(max_length=32), ListMap("name")] = ()
    """Further volumes of the pods. Default: none. Changing them rolls the pods."""
    volume_mounts: Annotated[tuple[VolumeMount, ...], Field(max_length=32), ListMap("mountPath")] = ()
    """Where the engine sees those volumes. Default: nowhere. Changing them rolls the pods."""
    labels: Annotated[dict[str, LabelValue], Field(max_length=32)] = Field(default_factory=dict)
    """Further labels of the pods. Default: none. Changing them rolls the pods."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] = Field(
        default_factory=dict
    )
    """Further annotations of the pods. Default: none. Changing them rolls the pods."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "every volumeMounts[].name must be the name of one of this template's volumes",
            "!has(self.volumeMounts) || self.volumeMounts.all(mount, "
            "has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name))",
            lambda own: (
                {mount.name for mount in own.volume_mounts} <= {volume.name for volume in own.volumes}
            ),
            field="volumeMounts",
        ),
        _without(OWNED_PREFIXES, "labels"),
        _without(REFUSED_ANNOTATION_PREFIXES, "annotations"),
    )
