"""The seam between the core and a proposer.

A proposer keeps what it needs for each token in the same slots as the target's KV (`cache.slots_for`): the
blocks of a sequence are its blocks too, and the core counts their memory as one. So a proposer allocates
nothing while it runs, and a prefix hit brings the features of the target along. Sequences with the same
beginning hold the same blocks: what lies in a slot must depend on no token after its own position.

Only what the target has read and verified counts: positions below ``sequence.written`` have features;
``sequence.tokens`` holds at least one token more, which is verified and has none yet. How far a proposer's
own KV goes is its own business, by sequence id: it may lag behind at depth 0 and catches up in `propose`.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from specfleet_engine.cache import FeatureCache
from specfleet_engine.sequence import Sequence, Tokens

__all__ = ["Draft", "Needs", "Proposer"]


@dataclass(frozen=True, slots=True)
class Needs:
    """Which states of the target a proposer reads, for each token.

    ``entering``: the raw states that enter these layers, counted from 0, joined in this order; ``final``:
    the last one after the final norm, joined after them.
    """

    entering: tuple[int, ...] = ()
    final: bool = False

    @property
    def states(self) -> int:
        return len(self.entering) + self.final


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed tokens that may follow a sequence.

    ``probabilities`` [tokens, vocabulary] is the very distribution that each token was drawn from, in fp32
    and over the target's vocabulary; None says that each was the proposer's only choice (one-hot).
    """

    tokens: Tokens
    probabilities: torch.Tensor | None = None


class Proposer(Protocol):
    """What drafts for a batch. All calls come from the loop's thread."""

    @property
    def method(self) -> str:
        """Its name in the schedule's and the operator's words, such as ngram or eagle3."""

    @property
    def needs(self) -> Needs: ...

    @property
    def weight_bytes(self) -> int:
        """Memory of its own weights."""

    @property
    def bytes_per_token(self) -> int:
        """What `prepare` allocates for each slot of the KV cache, features apart."""

    @property
    def draws(self) -> bool:
        """Whether drafts of sampled requests come with the distributions that they were drawn from."""

    @property
    def reach(self) -> int | None:
        """Tokens of a sequence beyond which it drafts nothing; None: as many as the target has."""

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        """Allocate for ``blocks`` blocks. Called once, first. ``features`` are there if `needs` names any."""

    def propose(self, sequences: tuple[Sequence, ...], depths: tuple[int, ...]) -> list[Draft]:
        """Draft up to ``depths`` tokens, each at least 1, for each sequence; fewer or none is fine.

        The blocks of a sequence already reach over its tokens and ``depth`` more.
        """

    def observe(self, sequences: tuple[Sequence, ...]) -> None:
        """Take note that the target has read more of these, verified and committed.

        Called after each pass at a depth above 0, with sequences that still read their prompt too, so that
        a proposer with a KV cache can read along in chunks. Depth 0 is a true bypass: no call at all.
        """

    def forget(self, sequence_id: str) -> None:
        """Drop what is kept under this id: the request has ended, or has lost its blocks for a while.

        Unknown ids are fine.
        """
