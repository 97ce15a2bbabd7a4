"""Drafting in a chain: a small network reads what was verified, then its own guesses, one by one.

Draft models and EAGLE heads differ only in the network. Its KV lies in the sequences' own blocks, so rolling
a rejected draft back needs nothing: its slots are written again. What a sequence's KV holds is one number,
the verified tokens that were read; everything after it is read at the next `propose`.

At depth 0 nothing runs here, not even to keep up: the tokens and the target's features stay where they are,
and what was missed is read in bounded chunks when drafting is asked for again. A sequence that is far behind
drafts nothing until it has caught up.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from specfleet_engine.batch import Rows
from specfleet_engine.cache import BLOCK_SIZE, FeatureCache
from specfleet_engine.proposers.drawing import Drawing, Vocabulary, draw_next
from specfleet_engine.proposers.proposer import Draft, Needs
from specfleet_engine.proposers.shared import SharedReads
from specfleet_engine.sequence import Sequence, Tokens

__all__ = ["ChainProposer", "Guess", "Network"]

# Bounds how long catching up may stall the batch, as PROMPT_TOKENS_PER_STEP does for prompts.
CATCH_UP_TOKENS_PER_STEP = 256
# Tokens that a sequence may be behind and still draft in the same pass: a step of the largest depth, twice.
NEAR = 32


@dataclass(frozen=True, slots=True)
class Guess:
    """What a network says after the last row of each sequence, in the order of ``sequences``.

    ``logits`` are [sequences, draft vocabulary]; ``states`` [sequences, hidden] is what its next draft step
    goes on from, None if its KV says it all.
    """

    sequences: tuple[Sequence, ...]
    logits: torch.Tensor
    states: torch.Tensor | None


class Network(Protocol):
    """A draft model or an EAGLE head, over a KV cache of its own."""

    @property
    def method(self) -> str: ...

    @property
    def needs(self) -> Needs: ...

    @property
    def weight_bytes(self) -> int: ...

    @property
    def bytes_per_token(self) -> int: ...

    @property
    def first(self) -> int:
        """The first token of a sequence that it reads: 1 if it needs the target's state before each."""

    @property
    def reach(self) -> int | None:
        """How many tokens it can read, None if as many as the target."""

    @property
    def keeps_drafts(self) -> bool:
        """Whether the KV of an accepted draft is what reading it as a verified token would give."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    def prepare(self, blocks: int, features: FeatureCache | None) -> None: ...

    def read(self, rows: list[Rows]) -> None:
        """Write the KV of verified tokens."""

    def guess(self, rows: list[Rows], states: torch.Tensor | None = None) -> Guess:
        """Write the KV of all rows, and say what follows the last one of each sequence.

        ``states`` are of the guess before, in the order of ``rows``: then all rows are drafts.
        """


@dataclass(slots=True)
class _Progress:
    """How far a sequence's KV goes: ``read`` verified tokens, then the ``fed`` drafts after them."""

    read: int
    fed: Tokens = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class ChainProposer:
    """The `Proposer` over one network."""

    draws = True

    def __init__(self, network: Network) -> None:
        self.method = network.method
        self.needs = network.needs
        self.bytes_per_token = network.bytes_per_token
        self.weight_bytes = network.weight_bytes
        self.reach = network.reach
        self._network = network
        self._progress: dict[str, _Progress] = {}
        self._shared = SharedReads()

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        self._network.prepare(blocks, features)

    def observe(self, sequences: tuple[Sequence, ...]) -> None:
        """Read along with a prompt, so that drafting can begin with the first decode step."""
        self._catch_up(sequences)

    def forget(self, sequence_id: str) -> None:
        self._progress.pop(sequence_id, None)

    def propose(self, sequences: tuple[Sequence, ...], depths: tuple[int, ...]) -> list[Draft]:
        """Draft for each sequence that is near enough to its end; the others get nothing in this step."""
        self._catch_up(sequences)
        room = {
            sequence: self._room(sequence, depth)
            for sequence, depth in zip(sequences, depths, strict=True)
            if len(sequence) - self._settled(sequence).read <= NEAR
        }
        drafts = self._draft({sequence: depth for sequence, depth in room.items() if depth > 0})
        return [drafts.get(sequence, Drawing()).draft() for sequence in sequences]

    def _draft(self, room: dict[Sequence, int]) -> dict[Sequence, Drawing]:
        drafts = {sequence: Drawing() for sequence in room}
        rows = [_rest(sequence, self._settled(sequence).read, len(sequence)) for sequence in room]
        states, vocabulary = None, self._network.vocabulary
        while rows:
            self._shared.overwrite(rows)
            guess = self._network.guess(rows, states)
            draw_next(guess.logits, guess.sequences, [drafts[each] for each in guess.sequences], vocabulary)
            going_on = [
                line
                for line, sequence in enumerate(guess.sequences)
                if len(drafts[sequence].tokens) < room[sequence]
            ]
            rows = [_fed(guess.sequences[line], drafts[guess.sequences[line]].tokens) for line in going_on]
            states = None if guess.states is None else guess.states[going_on]
        for sequence, drawing in drafts.items():
            fed = drawing.tokens[:-1] if self._network.keeps_drafts else []
            self._shared.note(sequence, self._progress[sequence.id].read, len(sequence))
            self._progress[sequence.id] = _Progress(len(sequence), np.array(fed, dtype=np.int64))
        return drafts

    def _room(self, sequence: Sequence, depth: int) -> int:
        """Drafts within the network's reach: the first needs the last token read, each other one more."""
        reach = self._network.reach
        return depth if reach is None else min(depth, reach - len(sequence) + 1)

    def _catch_up(self, sequences: tuple[Sequence, ...]) -> None:
        """Read what the target has read and this network has not, where that is more than a step or so."""
        budget = CATCH_UP_TOKENS_PER_STEP
        rows = []
        for sequence in sequences:
            progress = self._settled(sequence)
            if len(sequence) - progress.read <= NEAR or not budget:
                continue
            # Another sequence may have read what they share by now.
            progress.read = max(progress.read, self._shared.known(sequence))
            end = min(sequence.written, self._network.reach or sequence.written)
            if end > progress.read + budget:
                # A block that is begun is wiped: no part of a shared one may be left to others to read again.
                end = (progress.read + budget) // BLOCK_SIZE * BLOCK_SIZE
            if end <= progress.read:
                continue
            budget -= end - progress.read
            rows.append(_rest(sequence, progress.read, end))
        if rows:
            self._shared.overwrite(rows)
            self._network.read(rows)
        for row in rows:
            end = row.start + len(row.tokens)
            self._shared.note(row.sequence, row.start, end)
            self._progress[row.sequence.id].read = end

    def _settled(self, sequence: Sequence) -> _Progress:
        """Count the drafts that were fed and then accepted as read."""
        progress = self._progress.get(sequence.id)
        if progress is None:
            progress = _Progress(max(self._network.first, self._shared.known(sequence)))
            self._progress[sequence.id] = progress
        if len(progress.fed):
            after = sequence.tokens[progress.read : progress.read + len(progress.fed)]
            wrong = np.flatnonzero(after != progress.fed[: len(after)])
            before = progress.read
            right = int(wrong[0]) if len(wrong) else len(after)
            progress.read = before + right
            progress.fed = progress.fed[:0]
            self._shared.note(sequence, before, min(progress.read, len(sequence) - 1))
        # The last token is always left to read: what was drawn for a rejected draft may be the same token,
        # and a step that failed adds none to those that were read for its drafts.
        progress.read = min(progress.read, len(sequence) - 1)
        return progress


def _rest(sequence: Sequence, begin: int, end: int) -> Rows:
    return Rows(sequence, begin, sequence.tokens[begin:end])


def _fed(sequence: Sequence, drafts: list[int]) -> Rows:
    """The latest draft, at its place after the sequence's end."""
    return Rows(sequence, len(sequence) + len(drafts) - 1, np.array(drafts[-1:], dtype=np.int64))
