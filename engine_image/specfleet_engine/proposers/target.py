"""What a head needs of the target: its sizes, and the tables that it may borrow."""

import logging
from collections.abc import Callable
from typing import Protocol

import torch

from specfleet_engine.errors import ProposerRefused
from specfleet_engine.proposers.folder import Folder

__all__ = ["Linear", "Target", "same_size", "warn_of_a_foreign_table"]

logger = logging.getLogger(__name__)

# Trained copies of an embedding stay near it (cosine above 0.9); unrelated tables of any width are near 0.
_RELATED = 0.2
_SAMPLE = 64


Linear = Callable[[torch.Tensor], torch.Tensor]
"""A layer that was made by `Target.linear`: rows [.., in] to rows [.., out]."""


class Target(Protocol):
    """The part of `TargetModel` that heads use."""

    architecture: str
    layers: int
    hidden_size: int
    vocabulary_size: int
    dtype: torch.dtype
    device: torch.device

    @property
    def linear(self) -> Callable[[torch.Tensor, torch.Tensor | None], Linear]:
        """Make a linear layer of weight [out, in] and bias [out], as fast as this processor allows."""

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Embeddings [rows, hidden size] of ``tokens`` [rows], as the model uses them."""

    def head(self, states: torch.Tensor) -> torch.Tensor:
        """Logits [rows, vocabulary] of states after the final norm."""


def same_size(folder: Folder, what: str, theirs: int, ours: int) -> None:
    """Raise ProposerRefused unless the proposer's size is the target's."""
    if theirs != ours:
        raise ProposerRefused(
            f"the proposer in {folder.path} does not fit: its {what} is {theirs}, the model's {ours}"
        )


def warn_of_a_foreign_table(folder: Folder, table: torch.Tensor, target: Target) -> None:
    """Log if the head's own embedding has nothing in common with the target's.

    Some trainers saved a random table (engine-faults.md, row 29), and a quantised target may have a rotated
    one (row 30): acceptance is then near 0 and nothing else tells.
    """
    if table.shape[1] != target.hidden_size:
        return
    ids = torch.linspace(0, target.vocabulary_size - 1, _SAMPLE, device=table.device).long()
    near = torch.cosine_similarity(table[ids].float(), target.embed(ids).float(), dim=-1).mean()
    if not near > _RELATED:
        logger.warning(
            "the embedding in %s is unrelated to the model's (mean cosine %.2f): expect a low acceptance",
            folder.path,
            float(near),
        )
