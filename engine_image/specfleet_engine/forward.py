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
from specfleet_engine.cache import FeatureCache, KVCache, Window
from specfleet_engine.kernels import linear_maker, speed_up, window_of
from specfleet_engine.proposers import Needs

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
        # Before anything of the model is taken out of it: its layers and its head are replaced.
        self.weight_bytes: int = sum(weight.nbytes for weight in model.parameters())
        self._window = _window(model)
        self.kernel = speed_up(model)
        self._body: Any = model.base_model
        self._embedding: Callable[..., torch.Tensor] = model.get_input_embeddings()
        self._head: Callable[..., torch.Tensor] = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        self.architecture: str = config.architectures[0]
        self.layers: int = config.num_hidden_layers
        self.kv_heads: int = config.num_key_value_heads
        self.head_size: int = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.hidden_size: int = config.hidden_size
        self.positions: int = config.max_position_embeddings
        self.vocabulary_size: int = config.vocab_size
        self.dtype = model.dtype
        self.device = model.device
        self.linear = linear_maker(self.device, self.dtype)
        self._needs = Needs()

    @property
    def kv_bytes_per_token(self) -> int:
        return self.layers * self.layer_bytes_per_token

    @property
    def layer_bytes_per_token(self) -> int:
        """Keys and values of one layer."""
        return 2 * self.kv_heads * self.head_size * self.dtype.itemsize

    @property
    def feature_bytes_per_token(self) -> int:
        return self._needs.states * self.hidden_size * self.dtype.itemsize

    @property
    def logits_bytes_per_row(self) -> int:
        """As the head gives them, and in fp32."""
        return self.vocabulary_size * (self.dtype.itemsize + 4)

    def watch(self, needs: Needs) -> None:
        """From now on write these states of every row into the batch's features. Call it once.

        Raises ValueError for a layer that the model does not have.
        """
        if wrong := [layer for layer in needs.entering if not 0 <= layer < self.layers]:
            raise ValueError(f"the model has layers 0 to {self.layers - 1}, not {wrong[0]}")
        self._needs = needs
        for place, layer in enumerate(needs.entering):
            self._body.layers[layer].register_forward_pre_hook(
                _writer(place * self.hidden_size), with_kwargs=True
            )

    def new_cache(self, blocks: int) -> KVCache:
        return KVCache(
            self.layers, blocks, self.kv_heads, self.head_size, self.dtype, self.device, self._window
        )

    def new_features(self, blocks: int) -> FeatureCache | None:
        """Make room for the states that are watched; None if there are none."""
        width = self._needs.states * self.hidden_size
        return FeatureCache(blocks, width, self.dtype, self.device) if width else None

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Give the embeddings of ``tokens`` as the model uses them."""
        return self._embedding(tokens)

    def head(self, states: torch.Tensor) -> torch.Tensor:
        """Give the logits [.., vocabulary] of states after the final norm."""
        return self._head(states)

    def run(self, batch: Batch, judged: tuple[Rows, ...]) -> torch.Tensor:
        """Write the KV of all rows; give the logits of the ``judged`` ones, in fp32 [lines, vocabulary].

        That is one line for the last row of a sequence, and one for each of its drafts.
        """
        if len(batch.fresh):
            batch.kv.wipe(batch.fresh)
        output = self._body(
            input_ids=batch.tokens[None], position_ids=batch.positions[None], use_cache=False, batch=batch
        )
        states: torch.Tensor = output.last_hidden_state[0]
        if batch.features and self._needs.final:
            batch.features.write(batch.slots, len(self._needs.entering) * self.hidden_size, states)
        return self.head(states[_lines(batch, judged).to(self.device)]).float()


def _window(model: Any) -> Window | None:
    windows = ((index, window_of(layer)) for index, layer in enumerate(model.model.layers))
    narrow = {index: window for index, window in windows if window is not None}
    # A config names a single window for all layers that have one.
    return Window(min(narrow.values()), frozenset(narrow)) if narrow else None


def _writer(column: int) -> Callable[..., None]:
    """Make a hook that keeps the states that enter a layer."""

    def write(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...], keywords: dict[str, Any]) -> None:
        batch: Batch = keywords["batch"]
        if batch.features:
            states = arguments[0] if arguments else keywords["hidden_states"]
            batch.features.write(batch.slots, column, states[0])

    return write


def _lines(batch: Batch, judged: tuple[Rows, ...]) -> torch.Tensor:
    wanted = {id(rows) for rows in judged}
    lines: list[int] = []
    end = 0
    for rows in batch.rows:
        end += len(rows.tokens)
        if id(rows) in wanted:
            lines.extend(range(end - rows.drafts - 1, end))
    return torch.tensor(lines, dtype=torch.long)
