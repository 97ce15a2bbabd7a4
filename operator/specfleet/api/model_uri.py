"""Where the files of a model lie: the target's and a proposer's alike. Source: design/contracts.md."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from specfleet.api.rules import Rule, matching

LONGEST_URI = 1024
SCHEMES = "hf://org/name, pvc://claim/path, image://reference/path or file:///path"

_SEGMENT = "(/[.]?[A-Za-z0-9_-][A-Za-z0-9._-]*)"
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
# A tag or a digest is asked for, or nothing would tell where the reference ends and the path begins.
_REFERENCE = "([a-z0-9.-]+(:[0-9]+)?/)?[a-z0-9._/-]+(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})"
_URI = (
    f"file://{_SEGMENT}+|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?{_SEGMENT}*|hf://{_NAME}/{_NAME}|"
    f"image://{_REFERENCE}{_SEGMENT}*"
)
_IMAGE = re.compile(f"image://(?P<reference>{_REFERENCE})(?P<path>{_SEGMENT}*)")

HUB = "hf://"
PINNED = "^[0-9a-f]{7,40}$"
"""A commit, whole or shortened: what a branch or a tag stands for may change."""


class ImageSource(NamedTuple):
    """An image that holds a model, and the folder in it; empty: its root."""

    reference: str
    path: str


def served_uri(field: str, *, optional: bool = False) -> Rule:
    """Give the rule that ``field`` names files by a scheme that is served; ``optional``: or nothing."""
    return matching(
        f"^({'|' if optional else ''}{_URI})$",
        f"{field} must be hf://org/name (a repository of the model hub), pvc://claim/path (a claim of this "
        "namespace), image://reference:tag/path (an image volume) or file:///path (a directory in the "
        "engine's image), without '..' and without '/' at the end; no other scheme is served",
    )


def is_pinned(revision: str) -> bool:
    """Say whether a revision can never mean other files."""
    return re.fullmatch(PINNED, revision) is not None


def repository(uri: str) -> str:
    """Give org/name of a hub's repository."""
    return uri.removeprefix(HUB)


def claim(uri: str) -> tuple[str, str]:
    """Give claim and path of a pvc uri."""
    parts = urlsplit(uri)
    return parts.netloc, parts.path


def image(uri: str) -> ImageSource:
    """Split an image uri. Raises ValueError for what the schema does not allow."""
    found = _IMAGE.fullmatch(uri)
    if found is None:
        raise ValueError(f"{uri!r} is no image://reference:tag/path")
    return ImageSource(found["reference"], found["path"])
