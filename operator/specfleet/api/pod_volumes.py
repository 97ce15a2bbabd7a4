"""Volumes that a pool's pods may have beside specfleet's own: objects of the namespace, scratch space."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specfleet.api.fields import DnsLabel, ObjectName, Quantity, Written
from specfleet.api.owned import CLOSED_TREES, CONFIG_PATH, OWNED_VOLUMES, SCRATCH_PATH
from specfleet.api.rules import Rule, Rules, matching

_PATH = Annotated[
    str,
    Field(max_length=512),
    Rules(
        matching(
            "^(/[.]?[A-Za-z0-9_-][A-Za-z0-9._-]*)+$",
            "must be an absolute path of letters, digits, '.', '-' and '_', without '..' or a '/' at its end",
        )
    ),
]


class EmptyDir(Written):
    """Scratch space that lives as long as the pod."""

    medium: Literal["", "Memory"] = ""
    """Memory for a RAM disk (counts against the memory limit). Default: the node's disk."""
    size_limit: Quantity | None = None
    """Size at which the pod is evicted. Default: none."""


class PersistentVolumeClaim(Written):
    """A claim of this namespace."""

    claim_name: ObjectName
    """Name of the claim."""
    read_only: bool = False
    """Mount it read-only everywhere. Default: false."""


class ConfigMapVolume(Written):
    """A ConfigMap of this namespace, one file a key."""

    name: ObjectName
    """Name of the ConfigMap."""


class SecretVolume(Written):
    """A Secret of this namespace, one file a key."""

    secret_name: ObjectName
    """Name of the Secret."""


class Volume(Written):
    """One volume, with exactly one source."""

    name: DnsLabel
    """Name that volumeMounts refer to; unique in the pod."""
    empty_dir: EmptyDir | None = None
    """Scratch space that lives as long as the pod."""
    persistent_volume_claim: PersistentVolumeClaim | None = None
    """A claim of this namespace."""
    config_map: ConfigMapVolume | None = None
    """A ConfigMap of this namespace."""
    secret: SecretVolume | None = None
    """A Secret of this namespace."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "a volume needs exactly one source: emptyDir, persistentVolumeClaim, configMap or secret",
            "[has(self.emptyDir), has(self.persistentVolumeClaim), has(self.configMap), has(self.secret)]"
            ".filter(given, given).size() == 1",
            lambda own: (
                [own.empty_dir, own.persistent_volume_claim, own.config_map, own.secret].count(None) == 3
            ),
        ),
        Rule(
            f"the volume names {', '.join(OWNED_VOLUMES)} belong to specfleet: choose another name",
            f"!(self.name in {list(OWNED_VOLUMES)})",
            lambda own: own.name not in OWNED_VOLUMES,
            field="name",
        ),
    )


# Also the parent of the configuration: a mount there hides it.
_CONFIG_PARENT = CONFIG_PATH.rpartition("/")[0]
_CLOSED_PATHS = f"^(({'|'.join(CLOSED_TREES)})(/.*)?|{_CONFIG_PARENT}|{SCRATCH_PATH}|/proc|/sys|/dev)$"
_INNER_PATH = "^([.]?[A-Za-z0-9_-][A-Za-z0-9._-]*(/|$))*$"


class VolumeMount(Written):
    """Where the engine container sees one of the volumes."""

    name: DnsLabel
    """Name of a volume of this template."""
    mount_path: _PATH
    """Absolute path in the container; unique."""
    read_only: bool = False
    """Refuse writes through this mount. Default: false."""
    sub_path: Annotated[str, Field(max_length=256)] = ""
    """Path inside the volume to mount instead of its root. Default: the root."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"mountPath lies over a place of specfleet or the system ({', '.join(CLOSED_TREES)}, "
            f"{SCRATCH_PATH}, /etc, /proc, /sys, /dev): choose another path",
            f"!self.mountPath.matches('{_CLOSED_PATHS}')",
            lambda own: re.fullmatch(_CLOSED_PATHS, own.mount_path) is None,
            field="mountPath",
        ),
        Rule(
            "subPath must be a relative path without '..'",
            f"!has(self.subPath) || self.subPath.matches('{_INNER_PATH}')",
            lambda own: re.fullmatch(_INNER_PATH, own.sub_path) is not None,
            field="subPath",
        ),
    )
