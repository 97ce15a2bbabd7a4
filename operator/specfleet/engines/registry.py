"""Which engines there are, by the name that users write in ``engine.type``."""

from collections.abc import Mapping
from types import MappingProxyType

from specfleet.engines.builtin import BuiltinEngine
from specfleet.engines.engine import Engine
from specfleet.engines.sglang import SglangEngine
from specfleet.engines.simulated import SimulatedEngine
from specfleet.engines.vllm import VllmEngine

ENGINES: Mapping[str, Engine] = MappingProxyType(
    {engine.name: engine for engine in (VllmEngine(), SglangEngine(), BuiltinEngine(), SimulatedEngine())}
)
