"""One repository of a model hub, at one commit. The protocol is huggingface_hub's, errors become sentences.

No text of an answer is passed on: what a hub says may hold addresses.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import (
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile

from specfleet_download.errors import CannotFetch

__all__ = ["HubFile", "Repository"]

_COMMIT = re.compile("[0-9a-f]{40}")
_SHORT_COMMIT = re.compile("[0-9a-f]{7,39}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the hub describes it: bytes, and the hash of large files or else git's of any."""

    size: int
    sha256: str | None
    blob: str


@dataclass(frozen=True, slots=True)
class Repository:
    """``name`` is org/name; ``field`` the field of the resource that it comes from, for messages.

    ``endpoint`` None: the public hub.
    """

    name: str
    field: str
    token: str | None = None
    endpoint: str | None = None

    def __str__(self) -> str:
        return f"hf://{self.name}"

    def commit(self, revision: str) -> str:
        """Find the whole commit of a commit, a shortened commit, a tag or a branch. Raises CannotFetch."""
        if _COMMIT.fullmatch(revision):
            return revision
        with self.in_words(revision):
            if _SHORT_COMMIT.fullmatch(revision):
                return self._whole_commit(revision)
            found = self._api().repo_info(self.name, revision=revision).sha
            if found is None:
                raise FileMetadataError("no commit")
            return found

    def files(self, commit: str) -> dict[str, HubFile]:
        """List every file of a commit. Raises CannotFetch."""
        with self.in_words(commit):
            tree = self._api().list_repo_tree(self.name, recursive=True, revision=commit)
            return {
                entry.path: HubFile(entry.size, entry.lfs.sha256 if entry.lfs else None, entry.blob_id)
                for entry in tree
                if isinstance(entry, RepoFile)
            }

    def fetch(self, name: str, commit: str, folder: Path) -> Path:
        """Bring one file into ``folder``; what a broken transfer left there is gone on with.

        Raises CannotFetch.
        """
        with self.in_words(commit):
            return Path(
                hf_hub_download(
                    self.name,
                    name,
                    revision=commit,
                    local_dir=folder,
                    token=self._token(),
                    endpoint=self.endpoint,
                )
            )

    @contextmanager
    def in_words(self, revision: str) -> Iterator[None]:
        """Turn what the client and the volume raise into CannotFetch."""
        try:
            yield
        except (HfHubHTTPError, httpx2.HTTPError, OSError, ValueError) as error:
            # The client hides why it could not ask behind "not found locally".
            cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else None
            raise CannotFetch(f"{self}: {self._words(cause or error, revision)}") from error

    def _whole_commit(self, short: str) -> str:
        """Complete a commit by the history of the default branch: the hub itself wants all 40 digits."""
        history = self._api().list_repo_commits(self.name)
        found = {entry.commit_id for entry in history if entry.commit_id.startswith(short)}
        if len(found) != 1:
            raise CannotFetch(
                f"{self} has {'no' if not found else 'more than one'} commit {short} on its default branch: "
                f"write all 40 digits as {self.field}.revision"
            )
        return found.pop()

    def _api(self) -> HfApi:
        return HfApi(endpoint=self.endpoint, token=self._token())

    def _token(self) -> str | bool:
        # False, not None: without a token of its own the client would look for one in files and environment.
        return self.token or False

    def _words(self, error: BaseException, revision: str) -> str:
        match error:
            case HfHubHTTPError():
                words = self._answered(error, revision)
            case FileMetadataError():
                words = (
                    "the endpoint does not speak the hub's protocol: check modelHub.endpoint of the operator"
                )
            case OSError(errno=errno.ENOSPC | errno.EDQUOT):
                words = f"the volume is full: {self.more_room()}"
            case OSError(errno=errno.EACCES | errno.EPERM | errno.EROFS):
                words = "the volume cannot be written: the claim must be writable by the pod's user or group"
            # The hub's client locks each file too, and does without only where nothing locks (ENOSYS).
            case OSError(errno=errno.ENOLCK | errno.EOPNOTSUPP):
                words = (
                    "the volume does not lock files, which pods that share it need: mount the claim with "
                    "locks (for NFS: its lock service), or leave out model.cacheClaim"
                )
            case OSError() if "Consistency check failed" in str(error):
                words = "a file arrived with another size than the hub named: it is fetched at the next start"
            case httpx2.HTTPError() | LocalEntryNotFoundError() | ConnectionError():
                words = (
                    "the hub cannot be reached: check modelHub.endpoint of the operator, the cluster's DNS "
                    "and NetworkPolicies, or serve the model from pvc://claim/path"
                )
            case _:
                words = f"cannot be fetched ({type(error).__name__}): see the log of this container"
        return words

    def _answered(self, error: HfHubHTTPError, revision: str) -> str:
        match error, error.response.status_code:
            case GatedRepoError(), _:
                words = (
                    f"is gated: accept its terms on its page with the token's account, and {self._renew()}"
                )
            case RepositoryNotFoundError(), _:
                words = f"no such repository, or it is private: check {self.field}.uri, and {self._renew()}"
            case RevisionNotFoundError(), _:
                words = f"has no revision {revision}: write a commit of it as {self.field}.revision"
            case _, 401 | 403 as status:
                words = f"the hub refuses the token ({status}): {self._renew()}"
            case _, status:
                words = f"the hub answers with status {status}: it is asked again at the next start"
        return words

    def _renew(self) -> str:
        if self.token is None:
            return f"name a Secret with a token in {self.field}.credentialsSecret"
        return f"see that the Secret of {self.field}.credentialsSecret holds a token that may read it"

    def more_room(self) -> str:
        return "give the node more ephemeral storage, or name a larger claim in model.cacheClaim"
