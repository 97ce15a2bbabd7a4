"""Attention over the paged KV cache, in the shape that transformers calls.

The only code that runs inside the model. The batch reaches it as a keyword of the model's call, so there is
no state between steps.
"""

import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.batch import Batch

__all__ = ["attend"]


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
    """Store the rows' keys and values, then let every row see its own sequence up to itself.

    ``query`` is [1, heads, rows, size], ``key`` and ``value`` [1, kv heads, rows, size], rotary applied;
    the answer is [1, rows, heads, size]. Further keywords differ between versions of transformers and do
    not matter.
    """
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    batch.kv.write(layer, batch.slots, key[0].transpose(0, 1), value[0].transpose(0, 1))
    rows = query[0].transpose(0, 1)
    parts = []
    for group in batch.groups:
        keys, values = batch.kv.read(layer, group.table)
        own = rows[group.begin : group.end].view(-1, group.width, *rows.shape[1:]).transpose(1, 2)
        seen = F.scaled_dot_product_attention(
            own, keys, values, attn_mask=group.mask, scale=scaling, enable_gqa=True
        )
        parts.append(seen.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts)[None], None
