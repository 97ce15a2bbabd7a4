"""Which dictionary of metrics belongs to which engine, by what users write in ``engine.type``."""

from collections.abc import Mapping
from types import MappingProxyType

from specfleet.engines.metrics import MetricDictionary
from specfleet.engines.metrics_sglang import SGLANG
from specfleet.engines.metrics_vllm import BUILTIN, VLLM

METRICS: Mapping[str, MetricDictionary] = MappingProxyType(
    {"builtin": BUILTIN, "simulated": BUILTIN, "vllm": VLLM, "sglang": SGLANG}
)
