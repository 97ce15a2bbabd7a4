"""What pods do before their engine starts: a download may take an hour, and looks like nothing otherwise."""

from collections import Counter
from collections.abc import Container, Iterable

from specfleet.planning.names import DOWNLOADS, POOL_LABEL
from specfleet.planning.observed import Live
from specfleet.planning.pod_failures import is_gone


def pods_that_fetch(pods: Iterable[Live], pools: Container[str]) -> str:
    """Say how many pods of ``pools`` fetch what; empty: none does."""
    found = Counter(
        str(container["name"]).removeprefix("download-")
        for pod in pods
        if not is_gone(pod) and str((pod["metadata"].get("labels") or {}).get(POOL_LABEL)) in pools
        for container in (pod.get("status") or {}).get("initContainerStatuses") or ()
        if container.get("name") in DOWNLOADS and "running" in (container.get("state") or {})
    )
    return ", ".join(
        f"{count} {'pod fetches' if count == 1 else 'pods fetch'} the {what}"
        for what, count in sorted(found.items())
    )
