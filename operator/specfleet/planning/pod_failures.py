"""Why pods do not serve, in words: crash, image, configuration, no node. Read from pods, quoted with care.

Only two foreign texts are passed on: the scheduler's message, and the last line of a program of ours that
could not go on. Everything else is named by its Kubernetes reason, or by what is known of such an end.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from specfleet.planning.names import DOWNLOADS, ENGINE_CONTAINER, POOL_LABEL, PREFLIGHT
from specfleet.planning.observed import Live, one_line

ENGINE_FAILED = "EngineFailed"
OUT_OF_MEMORY = "OutOfMemory"
DOWNLOAD_FAILED = "DownloadFailed"
PREFLIGHT_FAILED = "PreflightFailed"
UNSCHEDULABLE = "Unschedulable"

_REASONS = {PREFLIGHT: PREFLIGHT_FAILED, **dict.fromkeys(DOWNLOADS, DOWNLOAD_FAILED)}
_WHAT_FAILED = {
    ENGINE_CONTAINER: "the engine cannot start",
    PREFLIGHT: "model and proposer do not fit",
    **dict.fromkeys(DOWNLOADS, "it cannot be fetched"),
}
# Several faults of one pair are told at once.
_PREFLIGHT_LINE, _LONGEST_OF_A_PAIR, _LONGEST = "specfleet_preflight:", 1200, 400

# "specfleet_engine: error: ...": how argparse, and our programs beside it, end one that cannot go on.
_ENGINE_LINE = re.compile(r"specfleet_[a-z]+: (?:error: )?(.+)")
_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
# torch's error on CUDA and ROCm devices, in the end of a log that Kubernetes keeps (2 KiB).
_DEVICE_MEMORY = re.compile(r"torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP) out of memory")
_LESS_MEMORY = "engine.kvCacheMib or maxNumSeqs, with drafts speculation.depth.max too, or write method none"
# How vLLM 0.32 ends at start for what only its image and the model's config tell (config/speculative.py).
_VLLM_ENDS = (
    (
        re.compile("Arctic Inference is required for suffix decoding"),
        "method suffix needs the package arctic-inference in vLLM's image: name an engine.image that has it, "
        "or write method ngram",
    ),
    (
        re.compile("must be divisible by n_predict=([0-9]{1,3})"),
        r"with method mtp vLLM runs the model's \1 prediction layers over and over: write a multiple of \1, "
        "or less, into speculation.depth.max",
    ),
)
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


def unschedulable(pod: Live) -> str | None:
    """Give the scheduler's word for why no node can take the pod; None: one can, or it has not looked."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return one_line(condition.get("message"))
    return None


def container_statuses(pod: Live) -> tuple[Live, ...]:
    """Give the status of every container, those that run before the engine first."""
    status = pod.get("status") or {}
    return (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))


def fails_before_engine(pod: Live) -> bool:
    """Say whether the pod fails and its engine never ran in it: by an image, or by what runs before."""
    return not _engine_ran(pod) and any(
        cause for container in container_statuses(pod) for cause in _container_causes(container, pod)
    )


def _engine_ran(pod: Live) -> bool:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if container.get("name") == ENGINE_CONTAINER:
            runs_or_ended = (container.get("state") or {}).keys() & {"running", "terminated"}
            return bool(runs_or_ended or container.get("lastState") or container.get("restartCount"))
    return False


def _causes(pod: Live) -> Iterator[tuple[str, str]]:
    if (message := unschedulable(pod)) is not None:
        yield UNSCHEDULABLE, f"no node can take it: {message}"
    # While one of the first kind fails, those of the second wait and have nothing to say.
    for container in container_statuses(pod):
        yield from _container_causes(container, pod)


def _container_causes(container: Live, pod: Live) -> Iterator[tuple[str, str]]:
    """Say why a container does not run; nothing: it runs, or is starting for the first time.

    A container that failed before counts until it is ready, or the answer would flap with every restart.
    """
    name = str(container.get("name"))
    reason = _REASONS.get(name, ENGINE_FAILED)
    waiting = ((container.get("state") or {}).get("waiting") or {}).get("reason")
    if waiting in _IMAGE_REASONS:
        image = container.get("image")
        yield reason, f"image {image} cannot be pulled ({waiting}): check its name and imagePullSecrets"
    elif waiting in _CONTAINER_REASONS:
        yield reason, f"the container cannot be created ({waiting}): {_to_create(container, pod)}"
    elif (ended := _ended(container)) is not None:
        if name == ENGINE_CONTAINER and (text := _out_of_memory(ended)) is not None:
            yield OUT_OF_MEMORY, text
        elif ended.get("exitCode") != 0 or waiting == "CrashLoopBackOff":
            yield reason, _exit_cause(ended, name)


def _to_create(container: Live, pod: Live) -> str:
    """Name the Secret of a download, which is nearly always what is missing; else what may be."""
    for started in (pod.get("spec") or {}).get("initContainers") or ():
        if started["name"] == container.get("name") and started["name"] in DOWNLOADS:
            for entry in started.get("env") or ():
                if (secret := (entry.get("valueFrom") or {}).get("secretKeyRef")) is not None:
                    return (
                        f"Secret {secret['name']} with key {secret['key']} is missing: create it in this "
                        "namespace, or correct credentialsSecret"
                    )
    return "check that every Secret, ConfigMap and claim it names exists"


def _ended(container: Live) -> Live | None:
    """Give how a container that is not ready ended the last time; None: it did not, or it serves."""
    if container.get("ready"):
        return None
    ended: Live | None = (container.get("state") or {}).get("terminated") or (
        container.get("lastState") or {}
    ).get("terminated")
    return ended


def last_words(container: Live) -> str | None:
    """Give why a program of ours ended, in its own words; None: it said nothing of that kind."""
    ended = _ended(container)
    return None if ended is None else _own_words(ended)


def said_at_the_end(container: Live) -> str | None:
    """Give the last words of an init container of ours that has ended, whether or not it failed."""
    ended = (container.get("state") or {}).get("terminated")
    return None if ended is None else _own_words(ended)


def _own_words(ended: Live) -> str | None:
    lines = str(ended.get("message") or "").strip().splitlines()
    found = _ENGINE_LINE.fullmatch(lines[-1]) if lines else None
    if found is None or not found[1].isprintable():
        return None
    return one_line(found[1], _LONGEST_OF_A_PAIR if lines[-1].startswith(_PREFLIGHT_LINE) else _LONGEST)


def _exit_cause(ended: Live, container: str) -> str:
    what = _WHAT_FAILED.get(container, "the container failed")
    if ended.get("reason") == "OOMKilled":
        return f"{container} was killed for want of memory (OOMKilled): its node has too little"
    if (words := _own_words(ended)) is not None:
        return f"{what}: {words}"
    if container == ENGINE_CONTAINER:
        for pattern, text in _VLLM_ENDS:
            if (found := pattern.search(str(ended.get("message") or ""))) is not None:
                return f"{what}: {found.expand(text)}"
        return f"the engine ended with exit code {ended.get('exitCode')}: see kubectl logs --previous"
    return f"{container} ended with exit code {ended.get('exitCode')}: see kubectl logs -c {container}"


def _out_of_memory(ended: Live) -> str | None:
    """Say which memory an engine lacked; None: it ended for another reason."""
    if ended.get("reason") == "OOMKilled":
        what = "the engine was killed for want of memory (OOMKilled)"
        return f"{what}: raise its memory limit, or lower {_LESS_MEMORY}"
    if ended.get("exitCode") != 0 and _DEVICE_MEMORY.search(str(ended.get("message") or "")):
        return f"the engine found no more memory on its device: lower {_LESS_MEMORY}"
    return None
