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


class Kind(Enum):
    """The three sorts of cluster."""

    GIVEN = "given"
    KIND = "kind"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Choice:
    """The cluster to use. ``kubeconfig`` is set for a given one."""

    kind: Kind
    kubeconfig: Path | None = None


def choose(environment: Mapping[str, str], kind_works: Callable[[], bool]) -> Choice:
    """Decide. ``kind_works`` is asked last, since it starts a program.

    Raises ClusterError when the given kubeconfig is no file.
    """
    if given := environment.get(GIVEN):
        path = Path(given)
        if not path.is_file():
            raise ClusterError(f"{GIVEN} names {given}, which is not a file; correct it or unset it")
        return Choice(Kind.GIVEN, kubeconfig=path.absolute())
    return Choice(Kind.KIND if kind_works() else Kind.LOCAL)


def kind_works_here() -> bool:
    """Say whether kind is installed and Docker answers.

    Not Podman: kind asks the program docker for the images that it loads (kubernetes-sigs/kind#2729).
    """
    if shutil.which("kind") is None or shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def choose_here() -> Choice:
    """Decide for this machine and environment."""
    return choose(os.environ, kind_works_here)
