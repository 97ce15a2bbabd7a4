"""A decoder layer of the Llama family in as few operators as torch allows.

transformers spends more time between the products than a small model spends on attention: three products
where one would do, the rotation of queries and keys apart, conversions around each norm. The numbers are the
same up to the order of a sum. Hooks on the layer see the same hidden states as on the one it replaces.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.attention import attend
from specfleet_engine.batch import Batch
from specfleet_engine.kernels.linear import joined

__all__ = ["LEAN_LAYERS", "LeanLayer", "SignedRotary", "window_of"]

# By name, so that no class of transformers is imported here. The four share one structure; Qwen2 adds a bias
# and Qwen3 norms of queries and keys.
LEAN_LAYERS = frozenset(
    {"LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer"}
)


def window_of(layer: Any) -> int | None:
    """How many tokens a row of a decoder layer of transformers sees, its own included; None: all.

    Qwen has the window in the layers that use it, Mistral in the config for all of them; a Llama has none,
    whatever its config says.
    """
    attention = layer.self_attn
    holder = attention.config if type(layer).__name__ == "MistralDecoderLayer" else attention
    window: int | None = getattr(holder, "sliding_window", None)
    return window


class SignedRotary(torch.nn.Module):
    """Cosines and sines [rows, 1, size] for `LeanLayer`: the sines of the first half are negative.

    So the rotation x·cos + (-x2, x1)·sin needs no negation: it is x·cos + (x2, x1)·sin.
    """

    def __init__(self, rotary: torch.nn.Module) -> None:
        super().__init__()
        self._rotary = rotary

    def forward(
        self, hidden_states: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cosines, sines = self._rotary(hidden_states, position_ids=position_ids)
        first, second = sines[0].chunk(2, dim=-1)
        return cosines[0, :, None], torch.cat((-first, second), dim=-1)[:, None]


class _Norm:
    """The norm by the root of the mean square, of vectors along the last dimension."""

    def __init__(self, norm: Any) -> None:
        self._weight: torch.Tensor = norm.weight.detach()
        self._epsilon: float = norm.variance_epsilon

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(rows, self._weight.shape, self._weight, self._epsilon)


class LeanLayer(torch.nn.Module):
    """Attention and MLP of the layer of transformers that it is built from."""

    def __init__(self, layer: Any, linear: Callable[[torch.nn.Linear], torch.nn.Module]) -> None:
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self.layer_idx: int = attention.layer_idx
        self._scaling: float = attention.scaling
        self._head_size: int = attention.head_dim
        self._heads: int = attention.q_proj.out_features // self._head_size
        self._kv_heads: int = attention.k_proj.out_features // self._head_size
        self._qkv = linear(joined([attention.q_proj, attention.k_proj, attention.v_proj]))
        self._out = linear(attention.o_proj)
        self._gate_up = linear(joined([mlp.gate_proj, mlp.up_proj]))
        self._down = linear(mlp.down_proj)
        self._activation: Callable[[torch.Tensor], torch.Tensor] = mlp.act_fn
        self._before_attention = _Norm(layer.input_layernorm)
        self._before_mlp = _Norm(layer.post_attention_layernorm)
        self._of_queries = _Norm(attention.q_norm) if hasattr(attention, "q_norm") else None
        self._of_keys = _Norm(attention.k_norm) if hasattr(attention, "k_norm") else None

    def forward(
        self,
        hidden_states: torch.Tensor,
        *,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        batch: Batch,
        **_: object,
    ) -> torch.Tensor:
        rows = hidden_states[0]
        seen = self._attend(self._before_attention(rows), position_embeddings, batch)
        rows = rows + self._out(seen)
        gate, up = self._gate_up(self._before_mlp(rows)).chunk(2, dim=-1)
        answer: torch.Tensor = rows + self._down(self._activation(gate).mul_(up))
        return answer[None]

    def _attend(
        self, rows: torch.Tensor, position_embeddings: tuple[torch.Tensor, torch.Tensor], batch: Batch
    ) -> torch.Tensor:
        cosines, sines = position_embeddings
        split: torch.Tensor = self._qkv(rows).view(len(rows), -1, self._head_size)
        turning = self._heads + self._kv_heads
        vectors = split[:, :turning]
        if self._of_queries and self._of_keys:
            queries, keys = vectors[:, : self._heads], vectors[:, self._heads :]
            vectors = torch.cat((self._of_queries(queries), self._of_keys(keys)), dim=1)
        turned = torch.addcmul(vectors * cosines, vectors.roll(self._head_size // 2, dims=-1), sines)
        along_heads = turned.transpose(0, 1)[None]
        seen, _ = attend(
            self,
            along_heads[:, : self._heads],
            along_heads[:, self._heads :],
            split[:, turning:].transpose(0, 1)[None],
            None,
            batch=batch,
            scaling=self._scaling,
        )
        return seen.view(len(rows), -1)
