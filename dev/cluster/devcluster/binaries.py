"""The Kubernetes programs: one Go binary, built from source once and kept in the cache.

Its key is the hash of the seed's sources. SPECFLEET_KUBE_BINARY_XZ may name an xz-compressed build of the
same seed, which saves a machine's first, cold build of a quarter of an hour.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.settings import KUBERNETES_VERSION, Settings
from devcluster.shell import run, say

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "coredns",
    "helm",
)
SOURCES = ("main.go", "go.mod", "go.sum")
PREBUILT = "SPECFLEET_KUBE_BINARY_XZ"
FETCHES_ITSELF = (1, 21)


def source_key(files: Sequence[Path]) -> str:
    """Answer a short hash of the sources: equal sources, equal binary."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def seed(settings: Settings) -> Path:
    """The folder with the Go sources."""
    return settings.repository / "dev" / "cluster" / "seed"


def _kube_binary(settings: Settings) -> Path:
    key = source_key([seed(settings) / name for name in SOURCES])
    return settings.cache / "kube" / f"{KUBERNETES_VERSION}-{key}" / "kube"


def is_built(settings: Settings) -> bool:
    """Say whether the Kubernetes programs lie in the cache."""
    return _kube_binary(settings).is_file()


def kube_folder(settings: Settings) -> Path:
    """Provide the folder with a link per program, all to the one binary, which is built when absent."""
    binary = _kube_binary(settings)
    folder = binary.parent
    if not binary.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _provide(binary, seed(settings))
    for program in PROGRAMS:
        link = folder / program
        if not link.is_symlink():
            link.symlink_to(binary.name)
    return folder


def _provide(binary: Path, sources: Path) -> None:
    partial = binary.with_suffix(f".{os.getpid()}")
    prebuilt = os.environ.get(PREBUILT)
    try:
        if prebuilt:
            _unpack(Path(prebuilt), partial)
        else:
            say(f"build the Kubernetes {KUBERNETES_VERSION} programs from source: a quarter of an hour, once")
            go_build(sources, ".", partial)
        version = run([partial, "kube-apiserver", "--version"]).strip()
        if version != f"Kubernetes {KUBERNETES_VERSION}":
            raise ClusterError(
                f"{prebuilt or sources} gives {version!r}, expected Kubernetes {KUBERNETES_VERSION}"
            )
        partial.rename(binary)
    finally:
        partial.unlink(missing_ok=True)


def _unpack(archive: Path, target: Path) -> None:
    if not archive.is_file():
        raise ClusterError(f"{PREBUILT} names {archive}, which is not a file; unset it to build from source")
    say(f"unpack the Kubernetes programs from {archive.name}")
    run(["sh", "-c", 'exec xz -dc "$1" > "$2"', "sh", archive, target])
    target.chmod(0o755)


def require_go(what: str) -> None:
    """Raise ClusterError when no Go on PATH can build ``what``.

    Sources name the release that they need; from 1.21 on Go fetches that one itself, and says why it cannot.
    """
    if shutil.which("go") is None:
        raise ClusterError(
            f"Go is not on PATH, and is needed to build {what}; install 1.26: https://go.dev/dl"
        )
    # Outside of any module, and without its fetching another release.
    found = run(
        ["go", "env", "GOVERSION"], environment={**os.environ, "GOTOOLCHAIN": "local"}, folder=Path("/")
    )
    release = re.match(r"go(\d+)\.(\d+)", found)
    if release and (int(release[1]), int(release[2])) < FETCHES_ITSELF:
        raise ClusterError(
            f"{shutil.which('go')} is {found.strip()}, too old to build {what}; install 1.26: https://go.dev/dl"
        )


def go_build(sources: Path, package: str, target: Path, tags: str = "") -> None:
    """Build one static Go program. Raises ClusterError when Go is absent or too old, or the build fails."""
    require_go(target.name.split(".")[0])
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"
    started = time.monotonic()
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags", flags]
    command += ["-o", str(target), package]
    run(command, environment={**os.environ, "CGO_ENABLED": "0"}, folder=sources)
    say(f"built {target.name.split('.')[0]} in {time.monotonic() - started:.0f} s")


def tools_folder(settings: Settings) -> Path:
    """Provide one folder with kubectl and helm: those on PATH, else built from the seed's modules."""
    folder = settings.cache / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    makers: Mapping[str, Callable[[Settings], Path]] = {"kubectl": _kubectl, "helm": _helm}
    for program, make in makers.items():
        found = _outside(program, folder)
        target = Path(found) if found else make(settings)
        link = folder / program
        if not link.is_symlink() or link.readlink() != target:
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    return folder


def _outside(program: str, folder: Path) -> str | None:
    path = os.pathsep.join(
        part for part in os.environ.get("PATH", "").split(os.pathsep) if Path(part) != folder
    )
    return shutil.which(program, path=path)


def _helm(settings: Settings) -> Path:
    return kube_folder(settings) / "helm"


def _kubectl(settings: Settings) -> Path:
    sources = settings.repository / "dev" / "cluster" / "kubectl"
    key = source_key([sources / name for name in SOURCES])
    binary = settings.cache / "kubectl" / f"{KUBERNETES_VERSION}-{key}" / "kubectl"
    if not binary.is_file():
        say("build kubectl from source: a few minutes, once")
        binary.parent.mkdir(parents=True, exist_ok=True)
        partial = binary.with_suffix(f".{os.getpid()}")
        go_build(sources, ".", partial)
        partial.rename(binary)
    return binary
