"""What a folder's tokenizer knows: every token and its id, special ones included."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specfleet_preflight.errors import Unreadable

__all__ = ["Vocabulary", "first_difference", "read_vocabulary"]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Ids by token."""

    ids: Mapping[str, int]

    @property
    def size(self) -> int:
        """One more than the highest id."""
        return max(self.ids.values(), default=-1) + 1


def read_vocabulary(path: Path) -> Vocabulary | None:
    """Read tokenizer.json, or vocab.json with what was added to it; None: neither is there.

    Raises Unreadable.
    """
    try:
        if (file := path / "tokenizer.json").is_file():
            return _fast(json.loads(file.read_text(encoding="utf-8")))
        if (file := path / "vocab.json").is_file():
            ids = json.loads(file.read_text(encoding="utf-8"))
            added = path / "added_tokens.json"
            more = json.loads(added.read_text(encoding="utf-8")) if added.is_file() else {}
            return Vocabulary({**ids, **more})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(
            f"{file} is no tokenizer ({type(error).__name__}): name a revision that is whole"
        ) from error
    return None


def _fast(document: Mapping[str, object]) -> Vocabulary:
    model, added = document["model"], document.get("added_tokens") or []
    if not isinstance(model, dict) or not isinstance(added, list):
        raise TypeError("model")
    pieces = model["vocab"]
    # Unigram keeps a list of pieces with their scores; the place is the id.
    ids = (
        dict(pieces)
        if isinstance(pieces, dict)
        else {piece: place for place, (piece, _) in enumerate(pieces)}
    )
    return Vocabulary({**ids, **{token["content"]: token["id"] for token in added}})


def first_difference(ours: Vocabulary, theirs: Vocabulary) -> str | None:
    """Compare what the ids mean; the sizes of tables are another matter, they are padded differently."""
    different = [
        token for token in ours.ids.keys() | theirs.ids.keys() if ours.ids.get(token) != theirs.ids.get(token)
    ]
    if not different:
        return None
    token = min(different, key=lambda token: (ours.ids.get(token, ours.size), token))
    mine, other = ours.ids.get(token, "unknown"), theirs.ids.get(token, "unknown")
    return f"the token {token!r} is {mine} in the model and {other} in the proposer"
