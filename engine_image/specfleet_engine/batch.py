"""The rows of one step: which tokens of which sequences go through the model together.

All rows lie in one flat row of tokens. Sequences with equally many rows form a group, which attention takes
in one call: plain decode is a group of one row, verification a group of K+1 rows, a prompt chunk a group of
its own. Where lengths differ much, or a long text is shared by many, there are more groups: attention gathers
what a group sees.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch

from specfleet_engine.cache import BLOCK_SIZE, FeatureCache, KVCache, blocks_for
from specfleet_engine.sequence import Sequence, Tokens

__all__ = ["Batch", "Group", "Rows", "build_batch"]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one sequence: ``tokens`` from position ``start`` on; the last ``drafts`` are drafts.

    ``probabilities`` [drafts, vocabulary] is what the drafts were drawn from; None: each is a one-hot draft.
    """

    sequence: Sequence
    start: int
    tokens: Tokens
    drafts: int = 0
    probabilities: torch.Tensor | None = None

    @property
    def judged(self) -> bool:
        """Whether the last token of the sequence is among them, so that a new one follows."""
        return self.start + len(self.tokens) >= len(self.sequence)


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences with ``width`` rows each, from flat row ``begin`` to ``end``.

    ``table`` names their blocks [sequences, blocks]; ``mask`` is added to the scores [sequences, 1, width,
    tokens], in layers with a sliding window ``narrow`` is.
    """

    begin: int
    end: int
    width: int
    table: torch.Tensor
    mask: torch.Tensor
    narrow: torch.Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """One step for the model. ``rows`` gives the order in which the sequences lie in the flat row.

    ``fresh`` blocks get their first token in this step.
    """

    rows: tuple[Rows, ...]
    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    fresh: torch.Tensor
    groups: tuple[Group, ...]
    kv: KVCache
    features: FeatureCache | None


def build_batch(rows: list[Rows], kv: KVCache, features: FeatureCache | None = None) -> Batch:
    """Lay the rows out by width, else in their order, and say where their KV goes and what each may see.

    With ``features`` the model writes the states that it `TargetModel.watch`es there.
    """
    ordered = sorted(rows, key=_width)
    positions: list[Tokens] = []
    slots: list[Tokens] = []
    groups: list[Group] = []
    begin = 0
    for same in _alike(ordered, kv.tokens // BLOCK_SIZE):
        width = _width(same[0])
        starts = np.array([member.start for member in same], dtype=np.int64)
        places = starts[:, None] + np.arange(width)
        table = _table(same, width)
        blocks = np.take_along_axis(table, places // BLOCK_SIZE, axis=1)
        end = begin + places.size
        positions.append(places.ravel())
        slots.append((blocks * BLOCK_SIZE + places % BLOCK_SIZE).ravel())
        groups.append(_group(begin, end, table, places, kv))
        begin = end
    device = kv.keys.device
    filled = np.concatenate(slots)
    return Batch(
        rows=tuple(ordered),
        tokens=torch.from_numpy(np.concatenate([row.tokens for row in ordered])).to(device),
        positions=torch.from_numpy(np.concatenate(positions)).to(device),
        slots=torch.from_numpy(filled).to(device),
        fresh=torch.from_numpy(filled[filled % BLOCK_SIZE == 0] // BLOCK_SIZE).to(device),
        groups=tuple(groups),
        kv=kv,
        features=features,
    )


def _width(rows: Rows) -> int:
    return len(rows.tokens)


def _alike(ordered: list[Rows], most_blocks: int) -> Iterator[list[Rows]]:
    """Split ``ordered`` into sequences of one width whose tables have no more blocks than the cache.

    So what attention gathers for a layer is never more than the layer has (`memory.largest_step_bytes`).
    """
    for width, members in groupby(ordered, key=_width):
        found: list[Rows] = []
        longest = 0
        for member in members:
            # Every line is filled up to the longest.
            longest = max(longest, blocks_for(member.start + width))
            if found and (len(found) + 1) * longest > most_blocks:
                yield found
                found, longest = [], blocks_for(member.start + width)
            found.append(member)
        yield found


def _table(members: list[Rows], width: int) -> Tokens:
    """Block numbers, padded with the sequence's own first block, which the mask hides.

    No sequence reads another one's block, so none can catch a NaN from it: a mask does not hide that.
    """
    used = [blocks_for(member.start + width) for member in members]
    table = np.empty((len(members), max(used)), dtype=np.int64)
    for line, member, count in zip(table, members, used, strict=True):
        line[:count] = member.sequence.blocks[:count]
        line[count:] = member.sequence.blocks[0]
    return table


def _group(begin: int, end: int, table: Tokens, places: Tokens, kv: KVCache) -> Group:
    tokens = np.arange(table.shape[1] * BLOCK_SIZE)
    rows = places[:, :, None]
    hidden = tokens > rows
    mask = narrow = _mask(hidden, kv)
    if kv.window and kv.window.tokens < len(tokens):
        narrow = _mask(hidden | (tokens <= rows - kv.window.tokens), kv)
    return Group(begin, end, places.shape[1], torch.from_numpy(table).to(kv.keys.device), mask, narrow)


def _mask(hidden: npt.NDArray[np.bool_], kv: KVCache) -> torch.Tensor:
    mask = torch.zeros(hidden.shape, dtype=kv.keys.dtype, device=kv.keys.device)
    mask.masked_fill_(torch.from_numpy(hidden).to(mask.device), float("-inf"))
    return mask[:, None]
