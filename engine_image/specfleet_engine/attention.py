"""Attention over the paged KV cache.

`attend` is the shape in which transformers calls it from inside the model, `attend_rows` the one in which a
proposer's own layer does. The batch reaches both as an argument, so there is no state between steps.
"""

import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.batch import Batch

__all__ = ["attend", "attend_rows"]

# Above this many rows of a sequence, a mask for each query head costs more than it saves.
_FEW_ROWS = 16


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    batch: Batch,
    scaling: float | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Do what `attend_rows` does, for one layer of the model.

    ``query`` is [1, heads, rows, size], ``key`` and ``value`` [1, kv heads, rows, size], rotary applied;
    the answer is [1, rows, heads, size]. Further keywords differ between versions of transformers and do
    not matter.
    """
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    rows = (states[0].transpose(0, 1) for states in (query, key, value))
    return attend_rows(batch, layer, *rows, scaling=scaling)[None], None


def attend_rows(
    batch: Batch,
    layer: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scaling: float | None = None,
) -> torch.Tensor:
    """Store the rows' keys and values, then let every row see its own sequence up to itself.

    In a layer with a sliding window it sees no more of it than that.

    All are [rows, heads, size], rotary applied, and so is the answer. ``scaling`` is 1/sqrt(size) if None.
    """
    batch.kv.write(layer, batch.slots, key, value)
    windowed = batch.kv.window is not None and layer in batch.kv.window.layers
    parts = []
    for group in batch.groups:
        keys, values = batch.kv.read(layer, group.table)
        own = query[group.begin : group.end].view(-1, group.width, *query.shape[1:])
        answer = _look(own, keys, values, group.narrow if windowed else group.mask, scaling)
        parts.append(answer.reshape(-1, *query.shape[1:]))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _look(
    own: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, scaling: float | None
) -> torch.Tensor:
    """Queries [sequences, width, heads, size] over their sequences' keys and values; gives the same shape."""
    sequences, width, heads, size = own.shape
    if width > _FEW_ROWS:
        seen = F.scaled_dot_product_attention(
            own.transpose(1, 2), keys, values, attn_mask=mask, scale=scaling, enable_gqa=True
        )
        return seen.transpose(1, 2)
    # The queries that share a KV head become rows of one head, so that each key is read once, not once for
    # each of them: half the time for 16 sequences with 3 queries to a KV head.
    shared = keys.shape[1]
    group = heads // shared
    folded = own.view(sequences, width, shared, group, size).transpose(1, 2)
    if width > 1:
        mask = mask.repeat_interleave(group, dim=2)
    seen = F.scaled_dot_product_attention(
        folded.reshape(sequences, shared, width * group, size), keys, values, attn_mask=mask, scale=scaling
    )
    return seen.view(sequences, shared, width, group, size).transpose(1, 2)
