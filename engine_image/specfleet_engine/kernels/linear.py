"""Linear layers by kernel. All take rows [..., in] and give [..., out]."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.kernels.capability import Kernel

__all__ = ["PackedLinear", "PlainLinear", "joined", "linear_for", "linear_of"]

# oneDNN lays weights out for a number of rows. Laid out for 16, one row costs as much as laid out for one,
# 4 to 16 rows cost a third less, and 256 a quarter less.
_PACKED_FOR_ROWS = 16


class PlainLinear(torch.nn.Module):
    """torch's own product."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self._weight = weight
        self._bias = bias

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return F.linear(rows, self._weight, self._bias)


class PackedLinear(torch.nn.Module):
    """oneDNN's product on weights that were laid out once; otherwise it does so in every call."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_FOR_ROWS)
        self._bias = bias

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._weight, self._bias, "none", [], ""
        )
        return product


_LINEARS: dict[Kernel, Callable[[torch.Tensor, torch.Tensor | None], torch.nn.Module]] = {
    Kernel.TORCH: PlainLinear,
    Kernel.PACKED: PackedLinear,
}


def linear_for(kernel: Kernel, layer: torch.nn.Linear) -> torch.nn.Module:
    """Make the layer anew for ``kernel``."""
    return linear_of(kernel, layer.weight.detach(), None if layer.bias is None else layer.bias.detach())


def linear_of(kernel: Kernel, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.nn.Module:
    """Make a layer of ``weight`` [out, in] and ``bias`` [out] for ``kernel``."""
    return _LINEARS[kernel](weight, bias)


def joined(layers: Sequence[torch.nn.Linear]) -> torch.nn.Linear:
    """One layer that gives the outputs of several side by side: one product instead of many."""
    outputs = sum(layer.out_features for layer in layers)
    biased = layers[0].bias is not None
    together = torch.nn.Linear(layers[0].in_features, outputs, bias=biased, device="meta")
    together.weight = torch.nn.Parameter(torch.cat([layer.weight for layer in layers]), requires_grad=False)
    if biased:
        together.bias = torch.nn.Parameter(torch.cat([layer.bias for layer in layers]), requires_grad=False)
    return together
