"""Which cluster this machine uses: a given one, kind, or the local one. Whatever needs one asks here."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from devcluster.errors import ClusterError

GIVEN = "SPECFLEET_KUBECONFIG"
ENGINES = ("docker", "podman")


class Kind(Enum):
    """The three sorts of cluster."""

    GIVEN = "given"
    KIND = "kind"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Choice:
    """The cluster to use. ``kubeconfig`` is set for a given one, ``engine`` (docker or podman) for kind."""

    kind: Kind
    kubeconfig: Path | None = None
    engine: str | None = None


def choose(environment: Mapping[str, str], kind_engine: Callable[[], str | None]) -> Choice:
    """Decide. ``kind_engine`` answers the container engine with which kind works, or None; it is asked last.

    Raises ClusterError when the given kubeconfig is no file.
    """
    if given := environment.get(GIVEN):
        path = Path(given)
        if not path.is_file():
            raise ClusterError(f"{GIVEN} names {given}, which is not a file; correct it or unset it")
        return Choice(Kind.GIVEN, kubeconfig=path.absolute())
    engine = kind_engine()
    return Choice(Kind.LOCAL) if engine is None else Choice(Kind.KIND, engine=engine)


def working_kind_engine() -> str | None:
    """Answer the container engine that runs here and that kind can use."""
    if shutil.which("kind") is None:
        return None
    for engine in ENGINES:
        if (
            shutil.which(engine)
            and subprocess.run([engine, "info"], capture_output=True, check=False).returncode == 0
        ):
            return engine
    return None


def choose_here() -> Choice:
    """Decide for this machine and environment."""
    return choose(os.environ, working_kind_engine)
