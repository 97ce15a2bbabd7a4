"""The tensors of one decoder layer of a head, which are those of a Llama layer."""

from specfleet_preflight.checkpoint import Checkpoint
from specfleet_preflight.tensor import Shape

__all__ = ["layer_tensors", "optional_tensors"]

_QKV = ("q_proj", "k_proj", "v_proj")


def layer_tensors(prefix: str, head: Checkpoint, width: int) -> dict[str, Shape]:
    """Name the weights that a layer always has. ``width``: what its attention reads. Raises Unreadable."""
    hidden, inner = head.number("hidden_size"), head.number("intermediate_size")
    queries, keys, size = _attention(head)
    shapes = {
        "self_attn.q_proj": (queries * size, width),
        "self_attn.k_proj": (keys * size, width),
        "self_attn.v_proj": (keys * size, width),
        "self_attn.o_proj": (hidden, queries * size),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
        "post_attention_layernorm": (hidden,),
    }
    return {f"{prefix}{name}.weight": shape for name, shape in shapes.items()}


def optional_tensors(prefix: str, head: Checkpoint) -> dict[str, Shape]:
    """Name what some families have besides: biases, and norms of queries and keys. Raises Unreadable."""
    queries, keys, size = _attention(head)
    rows = dict(zip(_QKV, (queries * size, keys * size, keys * size), strict=True))
    biases = {f"{prefix}self_attn.{name}.bias": (count,) for name, count in rows.items()}
    norms = {f"{prefix}self_attn.{name}.weight": (size,) for name in ("q_norm", "k_norm")}
    return {**biases, **norms, f"{prefix}self_attn.o_proj.bias": (head.number("hidden_size"),)}


def _attention(head: Checkpoint) -> tuple[int, int, int]:
    queries = head.number("num_attention_heads")
    keys = head.number("num_key_value_heads", queries)
    return queries, keys, head.number("head_dim", head.number("hidden_size") // queries)
