"""How long a pod may take from its start to its first answer.

Its engine's own part, and reading the weights. Their size is known only where they lie, so the most that the
pod can hold is taken: no model is larger than the memory that it is loaded into. Too short a budget kills a
pod that loads, again and again (vllm-project/aibrix#772); too long a one only tells later that a pod hangs.
"""

import math

from specfleet.api.resource import PodSettings, Spec
from specfleet.engines.engine import Engine
from specfleet.planning.device_memory import device_memory_mib
from specfleet.planning.gpus import gpus_per_pod

# Where the pool does not say what it runs on: the GPU that most large models are served on.
UNKNOWN_MIB = 80 * 1024
# The slow end: a volume over a network of one gigabit, and the default throughput of a node's disk (AWS gp3).
CLAIM_MIB_PER_SECOND = 100
DISK_MIB_PER_SECOND = 125
_PERIOD = 60


def start_seconds(engine: Engine, spec: Spec, template: PodSettings) -> int:
    """Give the budget of one pool's pods, in whole minutes of seconds."""
    if not spec.model.uri:
        return engine.timing.preparation
    devices = max(1, gpus_per_pod(template.resources))
    mib = devices * (device_memory_mib(template) or UNKNOWN_MIB)
    reading = mib / (CLAIM_MIB_PER_SECOND if _on_a_claim(spec) else DISK_MIB_PER_SECOND)
    return math.ceil((engine.timing.preparation + reading) / _PERIOD) * _PERIOD


def _on_a_claim(spec: Spec) -> bool:
    proposer = spec.speculation.proposer
    uris = (spec.model.uri, "" if proposer is None else proposer.uri)
    return spec.model.cache_claim is not None or any(uri.startswith("pvc://") for uri in uris)
