"""The one decoder layer of an EAGLE head, in plain torch.

It is a Llama layer with the parts apart, because the heads put them together differently: EAGLE-1 has no
norm before the attention, and EAGLE-3 gives the attention rows of twice the width.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.attention import attend_rows
from specfleet_engine.batch import Batch
from specfleet_engine.errors import ProposerRefused
from specfleet_engine.proposers.folder import Folder, Shape
from specfleet_engine.proposers.rotary import Rotary
from specfleet_engine.proposers.target import Linear, Target

__all__ = ["Layer", "LayerSizes", "layer_tensors", "rms_norm", "sizes_from"]


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """Sizes of a layer, with checkpoints.md's letters: H, F, h, g and d.

    ``positions`` are as many as it was made for; None: its config does not say. ``window`` is of
    sliding-window attention; None: the layer sees all.
    """

    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    eps: float
    query_bias: bool
    output_bias: bool
    positions: int | None
    window: int | None


def sizes_from(folder: Folder) -> LayerSizes:
    """Read the sizes from a config with Llama's keys and defaults.

    Raises ProposerRefused for a missing one, more than one layer, or another activation than silu.
    """
    config = folder.config
    if (layers := folder.whole_number("num_hidden_layers", 1)) != 1:
        raise ProposerRefused(
            f"the head in {folder.path} has {layers} layers: heads with one layer are served"
        )
    if (activation := config.get("hidden_act", "silu")) != "silu":
        raise ProposerRefused(f"the head in {folder.path} uses {activation}: silu is served")
    hidden = folder.whole_number("hidden_size")
    heads = folder.whole_number("num_attention_heads")
    all_biased = bool(config.get("attention_bias", False))
    stated, types = config.get("max_position_embeddings"), config.get("layer_types") or ()
    return LayerSizes(
        hidden=hidden,
        feed_forward=folder.whole_number("intermediate_size"),
        heads=heads,
        kv_heads=folder.whole_number("num_key_value_heads", heads),
        head_size=folder.whole_number("head_dim", hidden // heads),
        eps=_epsilon(folder),
        # Qwen2 has these biases without a key that says so.
        query_bias=all_biased or config.get("model_type") == "qwen2",
        output_bias=all_biased,
        positions=None if stated is None else folder.whole_number("max_position_embeddings"),
        # A head has one layer; its config may list those of its target.
        window=folder.whole_number("sliding_window") if "sliding_attention" in types[:1] else None,
    )


def _epsilon(folder: Folder) -> float:
    value = folder.config.get("rms_norm_eps", 1e-6)
    if not isinstance(value, float):
        raise ProposerRefused(
            f"rms_norm_eps in {folder.path / 'config.json'} must be a number, got {value!r}"
        )
    return value


def layer_tensors(prefix: str, sizes: LayerSizes, width: int) -> dict[str, Shape]:
    """Names and shapes of a layer's projections; ``width`` is what its attention reads."""
    query, key = sizes.heads * sizes.head_size, sizes.kv_heads * sizes.head_size
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    wanted: dict[str, Shape] = {
        f"{attention}q_proj.weight": (query, width),
        f"{attention}k_proj.weight": (key, width),
        f"{attention}v_proj.weight": (key, width),
        f"{attention}o_proj.weight": (sizes.hidden, query),
        f"{mlp}gate_proj.weight": (sizes.feed_forward, sizes.hidden),
        f"{mlp}up_proj.weight": (sizes.feed_forward, sizes.hidden),
        f"{mlp}down_proj.weight": (sizes.hidden, sizes.feed_forward),
        f"{prefix}post_attention_layernorm.weight": (sizes.hidden,),
    }
    if sizes.query_bias:
        wanted |= {f"{attention}{part}_proj.bias": (query if part == "q" else key,) for part in "qkv"}
    if sizes.output_bias:
        wanted[f"{attention}o_proj.bias"] = (sizes.hidden,)
    return wanted


def rms_norm(states: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Norm by the root of the mean square of the last dimension."""
    return F.rms_norm(states, weight.shape, weight, eps)


class Layer:
    """Attention and feed-forward part with the weights of one layer, which are named without its prefix."""

    def __init__(
        self, weights: Mapping[str, torch.Tensor], sizes: LayerSizes, rotary: Rotary, target: Target
    ) -> None:
        def linear(*names: str) -> Linear:
            """One product for several projections of the same rows."""
            biases = [weights[f"{name}.bias"] for name in names if f"{name}.bias" in weights]
            weight = torch.cat([weights[f"{name}.weight"] for name in names])
            return target.linear(weight, torch.cat(biases) if biases else None)

        self._sizes = sizes
        self._rotary = rotary
        self._norm = weights["post_attention_layernorm.weight"]
        self._query_key_value = linear(*(f"self_attn.{part}_proj" for part in "qkv"))
        self._out = linear("self_attn.o_proj")
        self._gate_up = linear("mlp.gate_proj", "mlp.up_proj")
        self._down = linear("mlp.down_proj")

    def attention(self, states: torch.Tensor, positions: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Let ``states`` [rows, width] at ``positions`` see their sequences; writes their KV."""
        heads, kv_heads = self._sizes.heads, self._sizes.kv_heads
        split = self._query_key_value(states).view(len(states), -1, self._sizes.head_size)
        query, key, value = torch.split(split, [heads, kv_heads, kv_heads], dim=1)
        query, key = self._rotary.turn(positions, query, key)
        return self._out(attend_rows(batch, 0, query, key, value).flatten(1))

    def feed_forward(self, states: torch.Tensor) -> torch.Tensor:
        """The layer's second half, with its norm and without its residual."""
        gate, up = self._gate_up(rms_norm(states, self._norm, self._sizes.eps)).chunk(2, dim=-1)
        return self._down(F.silu(gate) * up)
