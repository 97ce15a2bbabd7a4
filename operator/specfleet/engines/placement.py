"""How the devices of one pod share what an engine loads, as far as the user's arguments say.

The check of a pair plans memory by it: what does not fit into one device may fit into the devices of a pod.
Source: vLLM 0.32, config/{parallel,offload,cache}.py; SGLang 0.5.23, arg_groups/fields.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from specfleet.api.resource import Spec
from specfleet.engines.extra_arguments import Given

PLACING_FLAGS = frozenset({"--cpu-offload-gb", "--offload-group-size", "--kv-cache-dtype"})
"""Flags that are the same with both engines."""

_BYTES = {"float16": 2.0, "bfloat16": 2.0, "bf16": 2.0}
# Three bits are the least that any type of theirs takes.
_LEAST_BYTES = 0.375


@dataclass(frozen=True, slots=True)
class Placement:
    """``tensor``: devices that share each layer. ``stages``: groups of devices that share the layers.
    ``experts``: devices of one stage that share the experts. ``contexts``: devices that share the KV cache of
    one sequence, beside ``tensor``.

    ``offloaded_mib`` of the weights of each device lie in the host's memory; None: nobody can say how many.
    ``kv_element_bytes`` None: the KV cache has the type of the weights.
    """

    tensor: int
    stages: int
    experts: int
    contexts: int
    offloaded_mib: int | None
    kv_element_bytes: float | None


@runtime_checkable
class Places(Protocol):
    """An engine that may spread a model over several devices."""

    def placement(self, spec: Spec) -> Placement:
        """Say how the devices of one pod share what it loads."""


def offloaded_mib(flags: Given) -> int | None:
    """Read how much of its weights each device leaves in the host's memory; None: some of its layers."""
    if flags.get("--offload-group-size", "0") != "0":
        return None
    try:
        return int(float(flags.get("--cpu-offload-gb", "0")) * 1024)
    except ValueError:
        return 0  # The engine refuses it.


def kv_element_bytes(flags: Given) -> float | None:
    """Give the least that one element of the KV cache takes; None: the type of the weights."""
    kind = flags.get("--kv-cache-dtype", "auto")
    if kind == "auto":
        return None
    return 1.0 if kind.startswith(("fp8", "int8", "mxfp8")) else _BYTES.get(kind, _LEAST_BYTES)
