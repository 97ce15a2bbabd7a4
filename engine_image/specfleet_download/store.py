"""The folder that a repository ends up in: complete or absent, also where several pods share the volume.

A pod fetches into a folder of its own below ``.fetching``, which becomes the real one by a rename. The lock
only saves double work; where a file system has no locks, the rename alone keeps the result right.
"""

import errno
import fcntl
import hashlib
import json
import logging
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from specfleet_download.errors import CannotFetch
from specfleet_download.files import INDEX, needed
from specfleet_download.hub import HubFile, Repository

__all__ = ["COMPLETE", "fetch"]

logger = logging.getLogger(__name__)

COMPLETE = ".specfleet-complete.json"
_THREADS = 8
_LOOK_AGAIN_SECONDS = 2.0
_HELD = (errno.EACCES, errno.EAGAIN)
_MIB = 1 << 20


def fetch(repository: Repository, revision: str, folder: Path, *, pod: str, pickled: bool) -> str:
    """Make ``folder`` hold the repository at ``revision``, and give its commit. Raises CannotFetch.

    A folder that is complete is taken as it is, without a word to the hub. ``pod`` tells pods apart.
    """
    with repository.in_words(revision):
        if (commit := _commit_in(folder)) is not None:
            logger.info("%s holds %s at %s already", folder, repository, commit)
            return commit
        _workshop(folder).mkdir(parents=True, exist_ok=True)
        with _lock(folder) as alone:
            if (commit := _commit_in(folder)) is not None:
                logger.info("another pod has brought %s at %s", repository, commit)
                return commit
            staging = _staging(folder, pod, alone=alone)
            commit = repository.commit(revision)
            sizes = _bring(repository, commit, staging, pickled=pickled)
            _publish(staging, folder, {"commit": commit, "files": sizes})
            return commit


def _workshop(folder: Path) -> Path:
    """Where pods work on ``folder``: on the same file system, or a rename would be a copy."""
    return folder.parent / ".fetching" / folder.name


def _commit_in(folder: Path) -> str | None:
    """Read the marker; None without one, or if a file that it names is not there with its size."""
    try:
        marker = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
        whole = all((folder / name).stat().st_size == size for name, size in marker["files"].items())
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return str(marker["commit"]) if whole else None


@contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Wait until no other pod fetches ``folder``; False: this file system cannot tell."""
    with (_workshop(folder) / "lock").open("w") as file:
        said = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno == errno.ENOSYS:  # FUSE file systems without locks
                    logger.info("no locks in %s: pods that start together fetch on their own", folder.parent)
                    yield False
                    return
                if error.errno not in _HELD:
                    raise
            else:
                yield True
                return
            if not said:
                logger.info("another pod fetches %s: waiting for it", folder)
                said = True
            time.sleep(_LOOK_AGAIN_SECONDS)


def _staging(folder: Path, pod: str, *, alone: bool) -> Path:
    """Give this pod's own folder; what pods that died left behind is gone on with, or removed."""
    own = _workshop(folder) / f"by-{pod}"
    if alone:
        for left in sorted(_workshop(folder).glob("by-*")):
            if left == own:
                continue
            if own.exists():
                shutil.rmtree(left)
            else:
                left.rename(own)
    own.mkdir(exist_ok=True)
    return own


def _bring(repository: Repository, commit: str, staging: Path, *, pickled: bool) -> dict[str, int]:
    """Fetch and verify every file that is needed; gives their sizes in bytes."""
    there = repository.files(commit)
    wanted = needed(
        there,
        pickled=pickled,
        read_index=lambda: repository.fetch(INDEX, commit, staging).read_text(encoding="utf-8"),
        repository=str(repository),
    )
    _check_room(repository, {name: there[name].size for name in wanted}, staging)

    def bring(name: str) -> None:
        _verify(repository, repository.fetch(name, commit, staging), name, there[name])

    begin = time.monotonic()
    pool = ThreadPoolExecutor(_THREADS, "fetch")
    try:
        list(pool.map(bring, wanted))
    finally:
        pool.shutdown(cancel_futures=True)
    sizes = {name: there[name].size for name in wanted}
    logger.info(
        "fetched %s at %s: files=%d mib=%d seconds=%.1f",
        repository,
        commit,
        len(sizes),
        sum(sizes.values()) // _MIB,
        time.monotonic() - begin,
    )
    return sizes


def _check_room(repository: Repository, sizes: Mapping[str, int], staging: Path) -> None:
    there = sum((staging / name).stat().st_size for name in sizes if (staging / name).exists())
    missing, free = sum(sizes.values()) - there, shutil.disk_usage(staging).free
    if missing > free:
        raise CannotFetch(
            f"{repository}: needs {missing / _MIB:,.0f} MiB more and the volume has {free / _MIB:,.0f} MiB "
            f"free: {repository.more_room()}"
        )


def _verify(repository: Repository, path: Path, name: str, expected: HubFile) -> None:
    """Compare size and hash. Removes what is wrong, or the next start would go on with it."""
    with path.open("rb") as stream:
        if expected.sha256 is not None:
            found, right = hashlib.file_digest(stream, "sha256").hexdigest(), expected.sha256
        else:
            # How git names the content of a file: SHA-1 over a header and the bytes.
            blob = hashlib.sha1(f"blob {expected.size}\0".encode(), usedforsecurity=False)
            found, right = hashlib.file_digest(stream, lambda: blob).hexdigest(), expected.blob
    if found != right:
        path.unlink()
        raise CannotFetch(
            f"{repository}: {name} arrived with another content than the hub's hash says: it is fetched "
            "again at the next start; if that goes on, a proxy or a mirror in between is broken"
        )


def _publish(staging: Path, folder: Path, marker: Mapping[str, object]) -> None:
    """Let ``staging`` become ``folder`` in one step; whoever was first wins."""
    shutil.rmtree(staging / ".cache", ignore_errors=True)
    (staging / COMPLETE).write_text(json.dumps(marker), encoding="utf-8")
    try:
        staging.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if _commit_in(folder) is not None:
            shutil.rmtree(staging)
            return
        # Files of it were removed by hand: it is replaced.
        broken = staging.with_name("broken")
        shutil.rmtree(broken, ignore_errors=True)
        folder.rename(broken)
        staging.rename(folder)
        shutil.rmtree(broken)
