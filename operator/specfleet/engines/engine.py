"""What planning must know about one engine, and the values that pass between the two.

Each engine is one module beside this one. Rare abilities become small Protocols of their own.
Source: design/contracts.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from specfleet.api.resource import Spec
from specfleet.api.schedule import Table


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

    ``preparation``: from container start to the first answer, but for reading weights. ``pre_stop``: between
    leaving the Services and SIGTERM. ``drain``: from SIGTERM to the end of the last stream. ``teardown``:
    from there to the end of the process.
    """

    preparation: int
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


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the container; its name is what Services, monitors and probes refer to."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Either GET ``path`` on the first port, or run ``command`` in the container. Times in whole seconds."""

    path: str = ""
    command: tuple[str, ...] = ()
    period: int = 5
    timeout: int = 5
    failures: int = 2


@dataclass(frozen=True, slots=True)
class Probes:
    """``startup`` guards the others: none of them runs before it has passed.

    How often it may fail follows from the time that the pod may take (`planning.start_budget`).
    """

    startup: Probe
    liveness: Probe
    readiness: Probe


@dataclass(frozen=True, slots=True)
class Plugin:
    """A package that an init container copies into an empty volume for the engine to import."""

    container: str
    image: str
    """Key of the operator's configuration under ``images``."""
    volume: str
    path: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the container needs beside its arguments.

    ``ports``: the first one serves; metrics are scraped from all. ``environment``: name and value; a user may
    override what does not begin with SPECFLEET_. ``shared_memory_mib``: size of /dev/shm; None: the runtime's
    default of 64 MiB does. ``run_as_user``: for images whose own user is root.
    """

    command: tuple[str, ...]
    ports: tuple[Port, ...]
    probes: Probes
    environment: tuple[tuple[str, str], ...] = ()
    shared_memory_mib: int | None = None
    run_as_user: int | None = None
    plugin: Plugin | None = None


# live: the engine follows the schedule file. rollout: a changed table is a changed pod. fixed: one depth,
# chosen at start, whatever the load.
Actuator = Literal["live", "rollout", "fixed"]


@dataclass(frozen=True, slots=True)
class Actuation:
    """How the depth of one method can change, and why it cannot change better. ``why`` is empty for live."""

    actuator: Actuator
    why: str = ""


class Engine(Protocol):
    """One engine. Pure: no I/O, no clock, no environment."""

    @property
    def name(self) -> str:
        """What users write in ``engine.type``, and the key of its image in the operator's configuration."""

    @property
    def owned_flags(self) -> Sequence[str]:
        """Flags that `arguments` writes, and that nobody else may."""

    @property
    def timing(self) -> Timing:
        """What probes and the grace period are sized from."""

    def actuation(self, spec: Spec) -> Actuation:
        """Say how the depth of this engine changes, with this method, version and arguments."""

    def devices(self, spec: Spec) -> int:
        """Count the GPUs that one pod uses, if it uses any."""

    def runtime(self, spec: Spec) -> Runtime:
        """Give what the container needs beside its arguments."""

    def refusals(self, spec: Spec) -> Sequence[Refusal]:
        """Give every reason at once, so that one edit fixes the spec. Empty: served."""

    def arguments(
        self, spec: Spec, *, served_name: str, paths: ModelPaths, schedule_file: str
    ) -> Sequence[str]:
        """Write the container arguments in a fixed order: equal specs must give equal pods."""


@runtime_checkable
class ReadsTable(Protocol):
    """An engine that reads its table from a file of its own when it starts: another table is another pod."""

    table_key: str
    """Name of that file, beside the schedule file."""

    def table_text(self, spec: Spec, table: Table) -> str:
        """Write the file. Equal tables give equal texts."""
