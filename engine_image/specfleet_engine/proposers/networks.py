"""The networks that draft in a chain: a whole model, or an EAGLE head over the target's states."""

from typing import Protocol

import numpy as np
import torch

from specfleet_engine.batch import Batch, Rows, build_batch
from specfleet_engine.cache import FeatureCache, KVCache, Window, slots_for
from specfleet_engine.proposers.chain import Guess
from specfleet_engine.proposers.drawing import Vocabulary
from specfleet_engine.proposers.layer import LayerSizes
from specfleet_engine.proposers.proposer import Needs
from specfleet_engine.proposers.target import Target
from specfleet_engine.sequence import Sequence

__all__ = ["EagleNetwork", "Head", "Model", "ModelNetwork"]


class Model(Protocol):
    """The part of `TargetModel` that drafting needs."""

    positions: int
    vocabulary_size: int
    weight_bytes: int

    @property
    def kv_bytes_per_token(self) -> int: ...

    def new_cache(self, blocks: int) -> KVCache: ...

    def run(self, batch: Batch, judged: tuple[Rows, ...]) -> torch.Tensor: ...


class ModelNetwork:
    """A causal language model with the target's tokenizer. It sees tokens only."""

    method = "draftModel"
    needs = Needs()
    first = 0
    keeps_drafts = True

    def __init__(self, model: Model, vocabulary_size: int) -> None:
        """``vocabulary_size`` is the target's: the tables may end in unused rows of different number."""
        self.weight_bytes = model.weight_bytes
        self.bytes_per_token = model.kv_bytes_per_token
        self.reach: int | None = model.positions
        self._model = model
        self.vocabulary = Vocabulary(vocabulary_size)
        self._shared = min(vocabulary_size, model.vocabulary_size)

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        self._kv = self._model.new_cache(blocks)

    def read(self, rows: list[Rows]) -> None:
        self._model.run(self._batch(rows), ())

    def guess(self, rows: list[Rows], states: torch.Tensor | None = None) -> Guess:
        batch = self._batch(rows)
        logits = self._model.run(batch, batch.rows)
        return Guess(_sequences(batch), logits[:, : self._shared], None)

    def _batch(self, rows: list[Rows]) -> Batch:
        batch = build_batch(rows, self._kv)
        # A row of the target's table that this model does not have: no text has such a token.
        batch.tokens.clamp_(max=self._shared - 1)
        return batch


class Head(Protocol):
    """An EAGLE head's forward pass: `EagleHead` and `Eagle3Head`."""

    @property
    def needs(self) -> Needs: ...

    @property
    def sizes(self) -> LayerSizes: ...

    @property
    def weight_bytes(self) -> int: ...

    @property
    def ids(self) -> torch.Tensor | None: ...

    def enter(self, features: torch.Tensor) -> torch.Tensor:
        """From the target's features [rows, ...] to states [rows, H]."""

    def run(
        self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor, batch: Batch
    ) -> torch.Tensor:
        """Give the states that guess what follows each of ``tokens``."""

    def logits(self, states: torch.Tensor) -> torch.Tensor: ...

    def onward(self, states: torch.Tensor) -> torch.Tensor: ...


class EagleNetwork:
    """An EAGLE head. It reads each token together with the target's state of the token before it.

    The KV of that pair lies in the slot of its *token*, not in that of its state: so a block's KV depends on
    nothing outside of its prefix, and stays right when the block is shared. Slot 0 of a sequence holds none.
    """

    first = 1
    # A draft step goes on from the head's own state, a verified token from the target's.
    keeps_drafts = False

    def __init__(self, method: str, head: Head, target: Target) -> None:
        self.method = method
        self.needs = head.needs
        self.vocabulary = Vocabulary(target.vocabulary_size, head.ids)
        self.weight_bytes = head.weight_bytes
        positions = head.sizes.positions
        # A token takes the position of the state before it, so the first token takes none.
        self.reach = None if positions is None else positions + 1
        self.bytes_per_token = 2 * head.sizes.kv_heads * head.sizes.head_size * target.dtype.itemsize
        self._head = head
        self._dtype = target.dtype
        self._device = target.device

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        if features is None:
            raise ValueError(f"method {self.method} needs the target's features")
        sizes = self._head.sizes
        window = Window(sizes.window, frozenset({0})) if sizes.window else None
        self._kv = KVCache(1, blocks, sizes.kv_heads, sizes.head_size, self._dtype, self._device, window)
        self._features = features

    def read(self, rows: list[Rows]) -> None:
        self._run(build_batch(rows, self._kv), None)

    def guess(self, rows: list[Rows], states: torch.Tensor | None = None) -> Guess:
        batch = build_batch(rows, self._kv)
        ends = np.cumsum([len(row.tokens) for row in batch.rows]) - 1
        last = self._run(batch, states)[torch.from_numpy(ends).to(self._device)]
        return Guess(_sequences(batch), self._head.logits(last), self._head.onward(last))

    def _run(self, batch: Batch, states: torch.Tensor | None) -> torch.Tensor:
        for group in batch.groups:
            group.mask[..., 0] = group.narrow[..., 0] = float("-inf")
        if states is None:
            features = self._features.read(self._slots_before(batch))
            # A request whose numbers failed must not leave any of them in blocks that others get. The largest
            # number of its type in place of an infinity would overflow in the next product.
            states = self._head.enter(features.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0))
        return self._head.run(batch.tokens, states, batch.positions - 1, batch)

    def _slots_before(self, batch: Batch) -> torch.Tensor:
        slots = [
            slots_for(row.sequence.blocks, row.start - 1, row.start - 1 + len(row.tokens))
            for row in batch.rows
        ]
        return torch.from_numpy(np.concatenate(slots)).to(self._device)


def _sequences(batch: Batch) -> tuple[Sequence, ...]:
    return tuple(row.sequence for row in batch.rows)
