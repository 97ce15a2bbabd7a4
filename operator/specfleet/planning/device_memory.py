"""How much memory one device of a pool has, where the pool's own settings tell.

An upper bound: what does not fit into it does not fit into the device. Shared and partitioned devices, and
pools that may land on several kinds, are not known.
"""

import re

from specfleet.api.resource import PodSettings
from specfleet.planning.gpus import amount, gpus_per_pod

_MIB = 1 << 20
# Written by NVIDIA's GPU feature discovery: the driver's own figure in MiB, and the name of the product.
_MEMORY_LABEL = "nvidia.com/gpu.memory"
_PRODUCT_LABEL = "nvidia.com/gpu.product"
_STATED = re.compile("(?:^|-)([0-9]+)GB(?:-|$)")
# GiB, from the makers' data sheets, of products whose name does not state it. The longest name wins.
_KNOWN = {
    "T4": 16, "A10": 24, "A10G": 24, "A40": 48, "L4": 24, "L40": 48, "L40S": 48,
    "H100-NVL": 94, "H100": 80, "H200": 141, "H200-NVL": 141, "GH200": 144, "B200": 192, "B300": 288,
}  # fmt: skip
_SHARED = ("SHARED", "MIG")


def device_memory_mib(template: PodSettings) -> int | None:
    """Read the memory of one GPU from the node selector; without GPUs the memory limit of the container."""
    if gpus_per_pod(template.resources) == 0:
        limit = template.resources.limits.get("memory")
        return None if limit is None else int(amount(str(limit))) // _MIB
    selected = template.node_selector
    if selected.get(_MEMORY_LABEL, "").isdigit():
        return int(selected[_MEMORY_LABEL])
    return product_memory_mib(selected.get(_PRODUCT_LABEL, ""))


def product_memory_mib(product: str) -> int | None:
    """Read the memory of one GPU from the name of its product; None: the name does not tell."""
    words = product.upper().replace("_", "-").replace(" ", "-")
    if any(word in words.split("-") for word in _SHARED):
        return None
    if stated := _STATED.search(words):
        return int(stated[1]) * 1024
    found = [name for name in _KNOWN if f"-{name}-" in f"-{words}-"]
    return _KNOWN[max(found, key=len)] * 1024 if found else None
