"""What planning must know about one engine, and the values that pass between the two.

Each engine is one module beside this one. Rare abilities become small Protocols of their own.
Source: design/contracts.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from specfleet.api.resource import Spec


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something in the spec that cannot be served as it is written.

    ``reason`` is one CamelCase word for conditions; ``message`` says what is wrong and what to write instead.
    ``pool`` None: it concerns the whole resource. ``holds`` False: pods are planned nevertheless.
    """

    reason: str
    message: str
    pool: str | None = None
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Timing:
    """How long an engine may take, in whole seconds.

    ``startup``: from container start to the first answer. ``pre_stop``: between leaving the Services and
    SIGTERM. ``drain``: from SIGTERM to the end of the last stream. ``teardown``: from there to the end of the
    process.
    """

    startup: int
    pre_stop: int
    drain: int
    teardown: int

    @property
    def grace(self) -> int:
        """The pod's grace period: above preStop and drain, with time left to exit."""
        return self.pre_stop + self.drain + self.teardown


@dataclass(frozen=True, slots=True)
class ModelPaths:
    """Where the container finds the weights; None: the spec names none."""

    model: str | None
    proposer: str | None


class Engine(Protocol):
    """One engine. Pure: no I/O, no clock, no environment."""

    @property
    def name(self) -> str:
        """What users write in ``engine.type``."""

    @property
    def module(self) -> str:
        """Python module that the container runs."""

    @property
    def owned_flags(self) -> Sequence[str]:
        """Flags that `arguments` writes, and that nobody else may."""

    @property
    def timing(self) -> Timing:
        """What probes and the grace period are sized from."""

    def refusals(self, spec: Spec) -> Sequence[Refusal]:
        """Give every reason at once, so that one edit fixes the spec. Empty: served."""

    def arguments(
        self, spec: Spec, *, served_name: str, paths: ModelPaths, schedule_file: str
    ) -> Sequence[str]:
        """Write the container arguments in a fixed order: equal specs must give equal pods."""
