"""Which files of a repository an engine reads.

Repositories hold much more: other formats, training states, pictures. Code is never among what is fetched.
"""

import json
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase

from specfleet_download.errors import CannotFetch

__all__ = ["INDEX", "needed"]

INDEX = "model.safetensors.index.json"
_WHOLE = "model.safetensors"
# Configs, tokenizers of every form, chat templates.
_TEXT = ("*.json", "*.model", "*.tiktoken", "*.jinja", "merges.txt", "vocab.txt")
# Forms of the same weights that no engine reads beside these, and answers of training runs.
_NEVER = ("*.index.json", "trainer_state.json", "adapter_config.json")
_PICKLED = ("*.bin", "*.pt")


def needed(
    names: Collection[str], *, pickled: bool, read_index: Callable[[], str], repository: str
) -> tuple[str, ...]:
    """Choose from the ``names`` of a repository, sorted.

    safetensors are taken where there are any: those that ``read_index`` lists, if there is an index. Only
    with ``pickled`` (a proposer) may weights come as pickle files, which engines read with ``weights_only``.
    Raises CannotFetch if there are no weights.
    """
    top = [name for name in names if "/" not in name]
    text = {name for name in _matching(top, _TEXT) if not _matches(name, _NEVER)}
    if INDEX in top:
        return tuple(sorted({*text, INDEX, *_listed(read_index(), names, repository)}))
    if _WHOLE in top:
        return tuple(sorted({*text, _WHOLE}))
    if tensors := _matching(top, ("*.safetensors",)):
        return tuple(sorted({*text, *tensors}))
    pickles = _matching(top, _PICKLED)
    if pickled and pickles:
        return tuple(sorted({*text, *pickles}))
    raise CannotFetch(
        f"{repository} has no weights in safetensors form"
        + (" nor as *.bin or *.pt" if pickled else "")
        + ": name a repository or a revision that has, or convert it and serve it from pvc://claim/path"
    )


def _listed(index: str, names: Collection[str], repository: str) -> set[str]:
    """Give the files of an index. Raises CannotFetch if it is none, or names what is not there."""
    try:
        files = {str(file) for file in json.loads(index)["weight_map"].values()}
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CannotFetch(
            f"{INDEX} of {repository} is not an index: name a revision that is whole"
        ) from error
    if missing := sorted(file for file in files if file not in names or "/" in file):
        raise CannotFetch(
            f"{INDEX} of {repository} names {missing[0]}, which is not there: name a revision that is whole"
        )
    return files


def _matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    return [name for name in names if _matches(name, patterns)]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
