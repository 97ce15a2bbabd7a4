"""EAGLE-1 heads, which EAGLE-2 shares: one layer over the target's last state.

At place i the head joins the embedding of token i+1 with the target's state i after the final norm, runs one
layer that has no norm before its attention, and lets the target's own head judge what comes out
(checkpoints.md, section 4).
"""

import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.batch import Batch
from specfleet_engine.proposers.folder import Folder
from specfleet_engine.proposers.layer import Layer, LayerSizes, layer_tensors, sizes_from
from specfleet_engine.proposers.proposer import Needs
from specfleet_engine.proposers.rotary import Rotary, read_rotary
from specfleet_engine.proposers.target import Target, same_size, warn_of_a_foreign_table

__all__ = ["EagleHead", "read_eagle"]

_PREFIX = "layers.0."


class EagleHead:
    """The head's forward pass. Without an own embedding it uses the target's."""

    needs = Needs(final=True)
    ids = None

    def __init__(
        self, weights: dict[str, torch.Tensor], sizes: LayerSizes, rotary: Rotary, target: Target
    ) -> None:
        self.sizes = sizes
        self.weight_bytes = sum(weight.nbytes for weight in weights.values())
        self._join = target.linear(weights["fc.weight"], weights.get("fc.bias"))
        self._embedding = weights.get("embed_tokens.weight")
        self._target = target
        own = {name.removeprefix(_PREFIX): tensor for name, tensor in weights.items()}
        self._layer = Layer(own, sizes, rotary, target)

    def enter(self, features: torch.Tensor) -> torch.Tensor:
        """The target's states are taken as they are."""
        return features

    def run(
        self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor, batch: Batch
    ) -> torch.Tensor:
        """Give the state that guesses what follows each of ``tokens``; ``states`` are those before them."""
        table = self._embedding
        embedded = self._target.embed(tokens) if table is None else F.embedding(tokens, table)
        joined = self._join(torch.cat([embedded, states], dim=-1))
        joined = joined + self._layer.attention(joined, positions, batch)
        return joined + self._layer.feed_forward(joined)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._target.head(states)

    def onward(self, states: torch.Tensor) -> torch.Tensor:
        """The next draft step goes on from the same state."""
        return states


def read_eagle(folder: Folder, target: Target) -> EagleHead:
    """Read an EAGLE-1 head for ``target``. Raises ProposerRefused."""
    sizes = sizes_from(folder)
    same_size(folder, "hidden size", sizes.hidden, target.hidden_size)
    same_size(folder, "vocabulary", folder.whole_number("vocab_size"), target.vocabulary_size)
    wanted = {"fc.weight": (sizes.hidden, 2 * sizes.hidden), **layer_tensors(_PREFIX, sizes, sizes.hidden)}
    # The original code builds the bias unless the config says no; a missing key means yes.
    if folder.config.get("bias", True):
        wanted["fc.bias"] = (sizes.hidden,)
    weights = folder.take(wanted, {"embed_tokens.weight": (target.vocabulary_size, sizes.hidden)})
    weights = {name: tensor.to(target.device, target.dtype) for name, tensor in weights.items()}
    if "embed_tokens.weight" in weights:
        warn_of_a_foreign_table(folder, weights["embed_tokens.weight"], target)
    return EagleHead(weights, sizes, read_rotary(folder, sizes.head_size, target.device), target)
