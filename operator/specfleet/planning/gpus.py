"""How much a pod asks for, of GPUs above all: ceilings and the roll-out strategy depend on it."""

import math
import re
from fractions import Fraction

from specfleet.api.resource import Resources

_QUANTITY = re.compile("([0-9.]+)([A-Za-z]*)")
_SUFFIXES = {"": Fraction(1), "m": Fraction(1, 1000)}
_SUFFIXES |= {suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)}
_SUFFIXES |= {f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)}


def gpus_per_pod(resources: Resources) -> int:
    """Count whole devices and MIG parts of every vendor, by the larger of limit and request."""
    amounts: dict[str, Fraction] = {}
    for name, quantity in (*resources.requests.items(), *resources.limits.items()):
        if _is_gpu(name):
            amounts[name] = max(amounts.get(name, Fraction(0)), amount(quantity))
    return math.ceil(sum(amounts.values()))


def _is_gpu(resource_name: str) -> bool:
    """Recognise nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.5gb, gpu.intel.com/i915, ..."""
    vendor, _, device = resource_name.partition("/")
    return device == "gpu" or device.startswith(("gpu.", "mig-")) or vendor.startswith("gpu.")


def amount(quantity: str) -> Fraction:
    """Read a Kubernetes quantity. Raises ValueError for what is none."""
    found = _QUANTITY.fullmatch(quantity)
    if found is None or found[2] not in _SUFFIXES:
        raise ValueError(f"{quantity!r} is no Kubernetes quantity such as 1")
    return Fraction(found[1]) * _SUFFIXES[found[2]]
