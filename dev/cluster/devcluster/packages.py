"""Debian packages that bring the programs which are not built from source."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.shell import run, say

# Program or file that shows the package is there, and the package.
CLUSTER_PACKAGES: Mapping[str, str] = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "docker-registry": "docker-registry",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "mount": "mount",
    "xz": "xz-utils",
}
IMAGE_PACKAGES: Mapping[str, str] = {"buildah": "buildah", "debootstrap": "debootstrap"}

SYSTEM_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POLICY = Path("/usr/sbin/policy-rc.d")


def missing_packages(wanted: Mapping[str, str]) -> list[str]:
    """Answer the packages whose program or file is not on this machine."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}"
    return sorted(
        {package for program, package in wanted.items() if shutil.which(program, path=path) is None}
    )


def install(wanted: Mapping[str, str]) -> None:
    """Install what is missing; a second call does nothing. Raises ClusterError off Debian or without root."""
    missing = missing_packages(wanted)
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(
            f"these Debian packages are missing: {' '.join(missing)}. Install them, or run as root on Debian "
            "or Ubuntu so that this tool can, or use kind or SPECFLEET_KUBECONFIG"
        )
    say(f"install Debian packages: {' '.join(missing)}")
    _apt_install(missing)


def _apt_install(packages: Iterable[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], environment=environment)
    # Packages such as docker-registry start a service when they are installed; exit status 101 forbids it.
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
        POLICY.chmod(0o755)
    try:
        run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages], environment=environment)
    finally:
        if ours:
            POLICY.unlink()
