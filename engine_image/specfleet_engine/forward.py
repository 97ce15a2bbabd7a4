"""The target model: one forward pass for all rows of a step.

Beside `load` the only module that knows transformers: it registers the attention over the paged cache under
an own name, so that no class of transformers is subclassed or patched, and no cache object of it is used.
"""

from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from specfleet_engine.attention import attend
from specfleet_engine.batch import Batch, Rows
from specfleet_engine.cache import KVCache

__all__ = ["ATTENTION", "TargetModel"]

ATTENTION = "specfleet"


def _no_mask(*_: object, **__: object) -> None:
    """The batch says who sees what; a mask of transformers would cost rows times tokens."""


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, _no_mask)


class TargetModel:
    """A causal language model whose attention is ours."""

    def __init__(self, model: PreTrainedModel) -> None:
        config: Any = model.config
        self._model: Callable[..., Any] = model
        self.layers: int = config.num_hidden_layers
        self.kv_heads: int = config.num_key_value_heads
        self.head_size: int = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.positions: int = config.max_position_embeddings
        self.vocabulary_size: int = config.vocab_size
        self.weight_bytes: int = sum(weight.nbytes for weight in model.parameters())
        self.dtype = model.dtype
        self.device = model.device

    @property
    def kv_bytes_per_token(self) -> int:
        return self.layers * 2 * self.kv_heads * self.head_size * self.dtype.itemsize

    def new_cache(self, blocks: int) -> KVCache:
        return KVCache(self.layers, blocks, self.kv_heads, self.head_size, self.dtype, self.device)

    def run(self, batch: Batch, judged: tuple[Rows, ...]) -> torch.Tensor:
        """Write the KV of all rows; give the logits of the ``judged`` ones, in fp32 [lines, vocabulary].

        That is one line for the last row of a sequence, and one for each of its drafts.
        """
        output = self._model(
            input_ids=batch.tokens[None],
            position_ids=batch.positions[None],
            use_cache=False,
            logits_to_keep=_lines(batch, judged).to(self.device),
            batch=batch,
        )
        logits: torch.Tensor = output.logits[0]
        return logits.float()


def _lines(batch: Batch, judged: tuple[Rows, ...]) -> torch.Tensor:
    wanted = {id(rows) for rows in judged}
    lines: list[int] = []
    end = 0
    for rows in batch.rows:
        end += len(rows.tokens)
        if id(rows) in wanted:
            lines.extend(range(end - rows.drafts - 1, end))
    return torch.tensor(lines, dtype=torch.long)
