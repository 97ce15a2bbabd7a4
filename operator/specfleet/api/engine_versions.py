"""Which versions of which engine specfleet speaks to, and which methods each of them has.

Facts of the released sources; where an engine changed, the change is written beside the version.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

BUILTIN, SIMULATED, VLLM, SGLANG = "builtin", "simulated", "vllm", "sglang"
# Engines of ours are released with the operator: they have no dialect to choose.
OWN_ENGINES = (BUILTIN, SIMULATED)

DIALECTS: Mapping[str, tuple[str, ...]] = MappingProxyType({VLLM: ("0.32", "0.33"), SGLANG: ("0.5",)})
"""Release lines whose arguments and names are known, oldest first."""

# Readiness asks /ready, which 0.5.19 does not have: its pods would never serve. Read in both releases.
_SINCE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"0.5": ("0.5.20 and later", "([2-9][0-9]|[1-9][0-9]{2,})")}
)
"""Release lines that are known from a later version on: those versions in words, and their last numbers."""

TESTED_VERSIONS: Mapping[str, str] = MappingProxyType({VLLM: "0.32.0", SGLANG: "0.5.23"})
"""Version that is meant where a resource names none."""

METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        BUILTIN: ("draftModel", "eagle", "eagle3", "medusa", "ngram", "none"),
        SIMULATED: ("ngram", "none"),
        VLLM: ("draftModel", "eagle", "eagle3", "medusa", "mtp", "ngram", "suffix", "none"),
        SGLANG: ("draftModel", "eagle", "eagle3", "mtp", "ngram", "none"),
    }
)
"""Methods by engine, over all its versions. SGLang calls draftModel STANDALONE and mtp NEXTN."""

ENDED: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType({(VLLM, "medusa"): ("0.32",)})
"""Methods that an engine gave up: the release lines that still have them."""


def release_line(version: str) -> str:
    """Cut ``0.32.1`` to ``0.32``: within a line arguments and names stay."""
    return ".".join(version.split(".")[:2])


def versions_of(line: str) -> str:
    """Say in words which versions of a release line are known: ``0.32.x``."""
    return _SINCE[line][0] if line in _SINCE else f"{line}.x"


def pattern_of(lines: Sequence[str]) -> str:
    """Give the pattern that the known versions of these release lines match."""
    return f"^({'|'.join(_pattern(line) for line in lines)})$"


def _pattern(line: str) -> str:
    last = _SINCE[line][1] if line in _SINCE else "[0-9]+"
    return f"{line}.".replace(".", "[.]") + last


def methods(engine: str, version: str = "") -> tuple[str, ...]:
    """Name the methods of one engine; ``version`` empty: the tested one."""
    line = release_line(version or TESTED_VERSIONS.get(engine, ""))
    return tuple(name for name in METHODS[engine] if line in ENDED.get((engine, name), (line,)))
