"""What reconcile read from the cluster, as one frozen value: the second input of planning.

Objects are dicts as the API serves them; planning never changes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specfleet.api.kinds import Kind

ObjectKey = tuple[Kind, str]
"""Kind and name; the namespace is the resource's own."""

Live = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observed:
    """The cluster around one resource.

    ``objects``: every live object with the resource's label ``specfleet.dev/deployment``, and every live
    object of a wanted name (see `plan.wanted_keys`), no matter who owns it.
    ``pods``: the pods with that label. ``pod_monitors_served``: whether the API server knows kind PodMonitor.
    ``fence``: the leader's fence, for the first schedule document of a pool.
    ``nodes``: read only where a source of weights depends on what nodes can mount; empty: not known.
    ``full``: apply everything, also what carries the right hash: somebody may have changed the rest.
    """

    objects: Mapping[ObjectKey, Live]
    pods: tuple[Live, ...]
    pod_monitors_served: bool
    fence: int
    full: bool = False
    nodes: tuple[Live, ...] = ()


def one_line(message: object, longest: int = 400) -> str:
    """Take a message as one line of at most ``longest`` characters."""
    return " ".join(str(message or "no reason given").split())[:longest]
