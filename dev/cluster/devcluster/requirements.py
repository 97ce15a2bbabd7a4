"""What a machine must have for the local cluster and its images; asked before anything long begins."""

import os
import platform
import shutil

from devcluster import binaries
from devcluster.errors import ClusterError
from devcluster.settings import Settings
from devcluster.shell import say

ELSE = "use kind or SPECFLEET_KUBECONFIG instead"
# Measured: the build store, the registry and the runtime hold 8.3, 4.0 and 8.3 GB; Go's caches 2, sources 1.
IMAGES_GB = 24


def check(settings: Settings) -> None:
    """Raise ClusterError with what is missing here, and tell the user when the disk may become full."""
    if os.geteuid() != 0:
        raise ClusterError(f"the local cluster needs root; {ELSE}")
    if platform.machine() != "x86_64":
        raise ClusterError(
            f"the local cluster is for x86-64, and this machine is {platform.machine()}; {ELSE}"
        )
    if not binaries.is_built(settings):
        binaries.require_go("the Kubernetes programs")
        _warn_of_a_small_disk(settings)


def _warn_of_a_small_disk(settings: Settings) -> None:
    folder = next(path for path in settings.cache.parents if path.exists())
    free = shutil.disk_usage(folder).free / 1e9
    if free < IMAGES_GB:
        say(
            f"{free:.0f} GB are free below {folder}; the images of all engines take {IMAGES_GB} GB, "
            "those of the simulated engine's demo 4"
        )
