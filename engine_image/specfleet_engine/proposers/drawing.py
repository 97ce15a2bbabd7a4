"""Which token a proposer drafts: its likeliest one, or one drawn from what the request leaves of its guess.

A greedy request gets the likeliest token, as one-hot drafts. Above temperature 0 the draft is drawn from the
guess after the request's temperature, min_p, top_k and top_p, and that very distribution goes to
verification with it (reference: engine-building, exactness rules 2 and 3). Where distributions are flat it is
accepted several times as often as the likeliest token would be.
"""

from collections.abc import Sequence as Many
from dataclasses import dataclass, field

import numpy as np
import torch

from specfleet_engine.adjust import upload
from specfleet_engine.proposers.proposer import Draft
from specfleet_engine.sampling import distribution, draw, lines_at_once
from specfleet_engine.sequence import Sequence
from specfleet_engine.stream import DRAFT

__all__ = ["Drawing", "Vocabulary", "draw_next"]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How a proposer's logits name the target's ``size`` tokens: entry i is token ``ids[i]``, or i."""

    size: int
    ids: torch.Tensor | None = None

    def named(self, entries: torch.Tensor) -> list[int]:
        """The target's tokens. Waits for the device."""
        tokens: list[int] = (entries if self.ids is None else self.ids[entries]).tolist()
        return tokens

    def spread(self, laws: torch.Tensor) -> torch.Tensor:
        """Put probabilities [lines, entries] into [lines, the target's tokens], 0 elsewhere."""
        if self.ids is None and laws.shape[1] == self.size:
            return laws
        wide = laws.new_zeros(len(laws), self.size)
        if self.ids is None:
            wide[:, : laws.shape[1]] = laws
        else:
            wide[:, self.ids] = laws
        return wide


@dataclass(slots=True)
class Drawing:
    """A draft in the making. ``laws`` [vocabulary] has what each token was drawn from, if it was drawn."""

    tokens: list[int] = field(default_factory=list)
    laws: list[torch.Tensor] = field(default_factory=list)

    def draft(self) -> Draft:
        return Draft(np.array(self.tokens, dtype=np.int64), torch.stack(self.laws) if self.laws else None)


def draw_next(
    logits: torch.Tensor, sequences: Many[Sequence], drawings: Many[Drawing], vocabulary: Vocabulary
) -> None:
    """Add one token to each sequence's drawing, by its line of ``logits``. One read-back from the device."""
    entries = logits.argmax(dim=-1)
    drawn = [line for line, sequence in enumerate(sequences) if not sequence.sampling.greedy]
    most = lines_at_once(logits.shape[-1], logits.device)
    for begin in range(0, len(drawn), most):
        some = drawn[begin : begin + most]
        lines = upload(np.array(some), logits.device)
        law = distribution(logits[lines], [sequences[line].sampling for line in some])
        uniform = np.array([_uniform(sequences[line], drawings[line]) for line in some])
        # A proposer that gives no numbers would lead past the end; verification rejects what it drafts.
        entries[lines] = draw(law, upload(uniform, logits.device)).clamp_(max=logits.shape[-1] - 1)
        for line, wide in zip(some, vocabulary.spread(law), strict=True):
            drawings[line].laws.append(wide)
    for drawing, token in zip(drawings, vocabulary.named(entries), strict=True):
        drawing.tokens.append(token)


def _uniform(sequence: Sequence, drawing: Drawing) -> float:
    """The number that the request's stream has for drawing a draft at the next position."""
    place = len(drawing.tokens)
    return float(sequence.stream.peek(place + 1)[place, DRAFT])
