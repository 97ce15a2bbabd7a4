"""Why pods do not serve, in words: crash, image, configuration, no node. Read from pods, quoted with care.

Only two foreign texts are passed on: the scheduler's message, and the last line of an engine of ours that
could not start. Everything else is named by its Kubernetes reason.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from specfleet.planning.names import POOL_LABEL
from specfleet.planning.observed import Live, one_line

ENGINE_FAILED = "EngineFailed"
UNSCHEDULABLE = "Unschedulable"

# "specfleet_engine: error: ...": how argparse, and our engines beside it, end a program that cannot start.
_ENGINE_LINE = re.compile(r"specfleet_[a-z]+: (?:error: )?(.+)")
_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CONTAINER_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


@dataclass(frozen=True, slots=True)
class PodFailure:
    """One cause, with every pod of a pool that has it counted."""

    reason: str
    message: str


def pod_failures(pods: Iterable[Live], pools: Container[str]) -> tuple[PodFailure, ...]:
    """Give the causes over all pods of ``pools``, in a stable order. Pods that go away do not count."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for pod in pods:
        pool = str((pod["metadata"].get("labels") or {}).get(POOL_LABEL))
        if pool in pools and not is_gone(pod):
            for reason, text in _causes(pod):
                found[pool, reason, text].append(str(pod["metadata"]["name"]))
    return tuple(
        PodFailure(reason, f"pool {pool}: {_subject(pods_with_it)}: {text}")
        for (pool, reason, text), pods_with_it in sorted(found.items())
    )


def _subject(pods: list[str]) -> str:
    first, *others = sorted(pods)
    return f"pod {first}" if not others else f"pod {first} and {len(others)} more"


def is_gone(pod: Live) -> bool:
    """Say whether the pod is being deleted or has ended: its Deployment has replaced it already."""
    phase = (pod.get("status") or {}).get("phase")
    return bool(pod["metadata"].get("deletionTimestamp")) or phase in ("Failed", "Succeeded")


def _causes(pod: Live) -> Iterator[tuple[str, str]]:
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            yield UNSCHEDULABLE, f"no node can take it: {one_line(condition.get('message'))}"
    for container in status.get("containerStatuses") or ():
        if (text := _container_cause(container)) is not None:
            yield ENGINE_FAILED, text


def _container_cause(container: Live) -> str | None:
    """Say why a container does not run; None: it runs, or is starting for the first time.

    A container that failed before counts until it is ready, or the answer would flap with every restart.
    """
    state = container.get("state") or {}
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting in _IMAGE_REASONS:
        image = container.get("image")
        return f"image {image} cannot be pulled ({waiting}): check its name and imagePullSecrets"
    if waiting in _CONTAINER_REASONS:
        return (
            f"the container cannot be created ({waiting}): check that every Secret, ConfigMap and claim "
            "it names exists"
        )
    ended = _ended(container)
    if ended is None:
        return None
    if ended.get("exitCode") == 0 and waiting != "CrashLoopBackOff":
        return None
    return _exit_cause(ended)


def _ended(container: Live) -> Live | None:
    """Give how a container that is not ready ended the last time; None: it did not, or it serves."""
    if container.get("ready"):
        return None
    ended: Live | None = (container.get("state") or {}).get("terminated") or (
        container.get("lastState") or {}
    ).get("terminated")
    return ended


def last_words(container: Live) -> str | None:
    """Give why an engine of ours could not start, in its own words; None: it said nothing of that kind."""
    ended = _ended(container)
    return None if ended is None else _own_words(ended)


def _own_words(ended: Live) -> str | None:
    lines = str(ended.get("message") or "").strip().splitlines()
    found = _ENGINE_LINE.fullmatch(lines[-1]) if lines else None
    return one_line(found[1]) if found is not None and found[1].isprintable() else None


def _exit_cause(ended: Live) -> str:
    if ended.get("reason") == "OOMKilled":
        return (
            "the engine was killed for want of memory (OOMKilled): raise its memory limit, or lower "
            "engine.kvCacheMib or maxNumSeqs"
        )
    if (words := _own_words(ended)) is not None:
        return f"the engine cannot start: {words}"
    return f"the engine ended with exit code {ended.get('exitCode')}: see kubectl logs --previous"
