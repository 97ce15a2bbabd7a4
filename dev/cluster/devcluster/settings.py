"""Names, folders and address ranges of one local cluster. Pure, apart from ``default_settings``."""

import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import ClusterError

KUBERNETES_VERSION = "v1.35.4"
DEFAULT_NAME = "specfleet"
CGROUP_PREFIX = "specfleet-cluster-"
# The address of a /16 per slot must not run into the Service range of the next slot, hence three.
SLOTS = range(3)


@dataclass(frozen=True, slots=True)
class Ranges:
    """The addresses of one cluster. Slots are disjoint, so that clusters can stand side by side."""

    slot: int

    @property
    def host(self) -> str:
        """The host's end of the link into the cluster."""
        return f"10.99.{self.slot}.1"

    @property
    def node(self) -> str:
        """The node's address: API server, registry and DNS listen there."""
        return f"10.99.{self.slot}.2"

    @property
    def link(self) -> str:
        """The network between host and node."""
        return f"10.99.{self.slot}.0/30"

    @property
    def pods(self) -> str:
        """Addresses of pods."""
        return f"10.{244 + self.slot}.0.0/16"

    @property
    def services(self) -> str:
        """Addresses of Services."""
        return f"10.{96 + self.slot}.0.0/16"

    @property
    def api_service(self) -> str:
        """The Service ``kubernetes``: always the first of its range."""
        return f"10.{96 + self.slot}.0.1"

    @property
    def dns_service(self) -> str:
        """The Service ``kube-dns``."""
        return f"10.{96 + self.slot}.0.10"

    @property
    def host_interface(self) -> str:
        """The host's network interface; one per slot, so that its name is unique."""
        return f"specfleet{self.slot}"


def free_ranges(taken: Iterable[str]) -> Ranges:
    """Answer the first slot whose networks touch none of those that the host already routes.

    ``taken`` holds networks such as ``10.0.0.0/8``; the default route is not among them.
    Raises ClusterError when no slot is free.
    """
    networks = [ipaddress.ip_network(network, strict=False) for network in taken]
    for ranges in map(Ranges, SLOTS):
        wanted = [ipaddress.ip_network(network) for network in (ranges.link, ranges.pods, ranges.services)]
        if not any(want.overlaps(network) for want in wanted for network in networks if network.version == 4):
            return ranges
    raise ClusterError(
        f"every address range of the local cluster is in use on this host ({', '.join(map(str, networks))}); "
        "delete another local cluster, or give one with SPECFLEET_KUBECONFIG"
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """Where one cluster keeps what. Everything that a running cluster writes lies below ``state``."""

    name: str
    state: Path
    cache: Path
    repository: Path

    @property
    def kubeconfig(self) -> Path:
        """Cluster administrator's access, for users, tests and the demo."""
        return self.state / "kubeconfig"

    @property
    def run(self) -> Path:
        """What one life of the cluster writes; `down` removes it."""
        return self.state / "run"

    @property
    def logs(self) -> Path:
        """One log per program; kept by `down`, so that a failed run can be read."""
        return self.state / "logs"

    @property
    def store(self) -> Path:
        """Images: the registry's and the runtime's. `down` keeps them, so that `up` need not copy them."""
        return self.state / "images"

    @property
    def pki(self) -> Path:
        """Certificates and keys of one life."""
        return self.run / "pki"

    @property
    def configuration(self) -> Path:
        """Configuration files of one life."""
        return self.run / "etc"

    @property
    def cgroup(self) -> str:
        """The cgroup below which every process of the cluster lives, in each hierarchy."""
        return f"{CGROUP_PREFIX}{self.name}"

    @property
    def binds(self) -> dict[str, Path]:
        """Folders that the cluster's mount namespace sees in place of the host's.

        Some of these paths are compiled into kubelet, containerd and its shims; the binds keep a container
        runtime or a kubelet of the host untouched, and socket paths short.
        """
        return {
            "/run/containerd": self.run / "containerd",
            "/var/lib/containerd": self.store / "containerd",
            "/var/lib/kubelet": self.run / "kubelet",
            "/var/lib/cni": self.run / "cni",
            "/var/log/pods": self.run / "pod-logs",
            "/var/log/containers": self.run / "container-logs",
        }


def default_settings(name: str = DEFAULT_NAME) -> Settings:
    """Settings from the environment: XDG folders, else those below the home folder."""
    home = Path.home()
    state = Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return Settings(
        name=name,
        state=state / "specfleet" / "clusters" / name,
        cache=cache / "specfleet",
        repository=Path(__file__).resolve().parents[3],
    )
