"""EAGLE-3 heads: one layer over three middle states of the target, often with a vocabulary of their own.

At place i the head joins three raw states of the target into one, and its layer reads the embedding of
token i+1 and that state side by side. Draft steps go on from the head's own state, without the joining
(checkpoints.md, sections 2 and 3).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.batch import Batch
from specfleet_engine.proposers.layer import Layer, LayerSizes, rms_norm
from specfleet_engine.proposers.proposer import Needs
from specfleet_engine.proposers.rotary import Rotary
from specfleet_engine.proposers.target import Target

__all__ = ["Eagle3Head", "Norms"]


@dataclass(frozen=True, slots=True)
class Norms:
    """Where a head norms beyond what all of them do. ``each`` is before the joining, one for each state."""

    before_residual: bool
    output: bool
    joined: torch.Tensor | None
    each: tuple[torch.Tensor, ...]


class Eagle3Head:
    """The head's forward pass. ``weights`` are named as in checkpoints.md, without the layer's prefix."""

    def __init__(
        self,
        weights: dict[str, torch.Tensor],
        sizes: LayerSizes,
        norms: Norms,
        rotary: Rotary,
        needs: Needs,
        target: Target,
    ) -> None:
        self.sizes = sizes
        self.needs = needs
        self.weight_bytes = sum(weight.nbytes for weight in weights.values())
        self.ids: torch.Tensor | None = None
        if "d2t" in weights:
            offsets = weights["d2t"]
            self.ids = torch.arange(len(offsets), device=offsets.device) + offsets
        self._join = target.linear(weights["fc.weight"], None)
        head = weights.get("lm_head.weight")
        self._head = target.head if head is None else target.linear(head, None)
        self._embedding = weights.get("embed_tokens.weight")
        self._scales = {
            name: weights[f"{name}.weight"] for name in ("input_layernorm", "hidden_norm", "norm")
        }
        self._norms = norms
        self._target = target
        self._layer = Layer(weights, sizes, rotary, target)

    def enter(self, features: torch.Tensor) -> torch.Tensor:
        """Join the three states of the target [rows, 3T] into one [rows, H]."""
        if self._norms.each:
            parts = zip(features.chunk(len(self._norms.each), dim=-1), self._norms.each, strict=True)
            features = torch.cat([rms_norm(part, weight, self.sizes.eps) for part, weight in parts], dim=-1)
        if self._norms.joined is not None:
            features = rms_norm(features, self._norms.joined, self.sizes.eps)
        return self._join(features)

    def run(
        self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor, batch: Batch
    ) -> torch.Tensor:
        """Give the state that guesses what follows each of ``tokens``; ``states`` are those before them."""
        embedded = self._normed("input_layernorm", self._embed(tokens))
        normed = self._normed("hidden_norm", states)
        kept = normed if self._norms.before_residual else states
        kept = kept + self._layer.attention(torch.cat([embedded, normed], dim=-1), positions, batch)
        return kept + self._layer.feed_forward(kept)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logits [rows, draft vocabulary]; `ids` says which token of the target each one is."""
        return self._head(self._normed("norm", states))

    def onward(self, states: torch.Tensor) -> torch.Tensor:
        """What the next draft step goes on from."""
        return self._normed("norm", states) if self._norms.output else states

    def _embed(self, tokens: torch.Tensor) -> torch.Tensor:
        table = self._embedding
        return self._target.embed(tokens) if table is None else F.embedding(tokens, table)

    def _normed(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return rms_norm(states, self._scales[name], self.sizes.eps)
