"""Medusa: several heads that all read the target's last state, each guessing one token further ahead.

The state after the final norm at token t gives token t+1 through the target's own head, and token t+1+k
through Medusa head k, counted from 1 (checkpoints.md, section 5). So the heads need no KV cache and no draft
steps, and a guess does not know the one before it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.cache import FeatureCache, slots_for
from specfleet_engine.proposers.drawing import Drawing, Vocabulary, draw_next
from specfleet_engine.proposers.folder import Folder, Shape
from specfleet_engine.proposers.formats import Format
from specfleet_engine.proposers.proposer import Draft, Needs
from specfleet_engine.proposers.target import Linear, Target
from specfleet_engine.sequence import Sequence

__all__ = ["MedusaHead", "MedusaProposer", "read_medusa"]

logger = logging.getLogger(__name__)

# Names of a block, without .weight and .bias, and of the linear to the vocabulary.
_NAMES = {
    Format.MEDUSA: ("{head}.{layer}.linear", "{head}.{layer}.weight"),
    Format.MEDUSA_BLOCKS: ("blocks.{head}.layers.{layer}", "lm_heads.{head}.weight"),
}


@dataclass(frozen=True, slots=True)
class MedusaHead:
    """Residual blocks, and the linear to the vocabulary."""

    blocks: tuple[Linear, ...]
    output: Linear

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logits [rows, vocabulary] of the target's states [rows, H] after the final norm."""
        for block in self.blocks:
            states = states + F.silu(block(states))
        return self.output(states)


class MedusaProposer:
    """The `Proposer` over Medusa heads; the first guesses what follows a sequence's last token."""

    method = "medusa"
    needs = Needs(final=True)
    bytes_per_token = 0
    draws = True
    reach = None

    def __init__(self, heads: tuple[MedusaHead, ...], weight_bytes: int, target: Target) -> None:
        self.weight_bytes = weight_bytes
        self._heads = heads
        self._device = target.device
        self._vocabulary = Vocabulary(target.vocabulary_size)

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        if features is None:
            raise ValueError("method medusa needs the target's features")
        self._features = features

    def observe(self, sequences: tuple[Sequence, ...]) -> None:
        """Nothing: the target's states are all that is read."""

    def forget(self, sequence_id: str) -> None:
        """Nothing is kept."""

    def propose(self, sequences: tuple[Sequence, ...], depths: tuple[int, ...]) -> list[Draft]:
        """Draft as many tokens as there are heads, at most."""
        # The last token has not been read; it was chosen from the state of the one before it.
        ends = [len(sequence) - 2 for sequence in sequences]
        slots = [
            slots_for(sequence.blocks, end, end + 1) for sequence, end in zip(sequences, ends, strict=True)
        ]
        states = self._features.read(torch.from_numpy(np.concatenate(slots)).to(self._device))
        drawings = [Drawing() for _ in sequences]
        for place, head in enumerate(self._heads[: max(depths)]):
            going_on = [line for line, depth in enumerate(depths) if depth > place]
            draw_next(
                head.logits(states[going_on]),
                [sequences[line] for line in going_on],
                [drawings[line] for line in going_on],
                self._vocabulary,
            )
        return [drawing.draft() for drawing in drawings]


def read_medusa(folder: Folder, form: Format, target: Target) -> MedusaProposer:
    """Read Medusa heads for ``target``. Raises ProposerRefused.

    Published configs name fewer heads than there are, so the tensors are counted.
    """
    block, output = _NAMES[form]
    heads = _run_length(folder, lambda number: block.format(head=number, layer=0))
    layers = _run_length(folder, lambda number: block.format(head=0, layer=number))
    for key, found in (("medusa_num_heads", heads), ("medusa_num_layers", layers)):
        if (said := folder.config.get(key)) not in (None, found):
            logger.info("%s says %s %s, its tensors are for %d: they count", folder.path, key, said, found)
    hidden, biased = target.hidden_size, _is_biased(folder, form, block)
    wanted: dict[str, Shape] = {}
    for head in range(heads):
        wanted[output.format(head=head, layer=layers)] = (target.vocabulary_size, hidden)
        for layer in range(layers):
            name = block.format(head=head, layer=layer)
            wanted[f"{name}.weight"] = (hidden, hidden)
            if biased:
                wanted[f"{name}.bias"] = (hidden,)
    weights = {name: tensor.to(target.device, target.dtype) for name, tensor in folder.take(wanted).items()}

    def a_head(head: int) -> MedusaHead:
        names = (block.format(head=head, layer=layer) for layer in range(layers))
        blocks = (target.linear(weights[f"{name}.weight"], weights.get(f"{name}.bias")) for name in names)
        output_weight = weights[output.format(head=head, layer=layers)]
        return MedusaHead(tuple(blocks), target.linear(output_weight, None))

    weight_bytes = sum(weight.nbytes for weight in weights.values())
    return MedusaProposer(tuple(a_head(head) for head in range(heads)), weight_bytes, target)


def _run_length(folder: Folder, name: Callable[[int], str]) -> int:
    """How many of the names, counted from 0 without a gap, have a weight; at least 1, to be asked for."""
    return max(1, next(number for number in count() if f"{name(number)}.weight" not in folder.tensors))


def _is_biased(folder: Folder, form: Format, block: str) -> bool:
    """The original blocks always have a bias; vLLM's form has a key for it."""
    if form is Format.MEDUSA:
        return True
    there = f"{block.format(head=0, layer=0)}.bias" in folder.tensors
    return bool(folder.config.get("medusa_fc_bias", there))
