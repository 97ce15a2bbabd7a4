"""Puts the kernels into a loaded model. The weights move, so that none is held twice."""

import logging
from collections.abc import Callable
from typing import Any

import torch

from specfleet_engine.kernels.capability import Kernel, choose_kernel, cpu_flags
from specfleet_engine.kernels.layers import LEAN_LAYERS, LeanLayer, SignedRotary
from specfleet_engine.kernels.linear import linear_for, linear_of
from specfleet_engine.kernels.native import (
    Library,
    NativeEmbedding,
    NativeHead,
    NativeLayer,
    NativeLinear,
    NativeRotary,
    fits,
    open_library,
)

__all__ = ["linear_maker", "speed_up"]

logger = logging.getLogger(__name__)


def speed_up(model: Any, flags: frozenset[str] | None = None) -> str:
    """Let ``model`` compute with the best kernels for this processor, in place; say which for the log.

    ``model`` is a causal language model of transformers with the engine's attention. ``flags`` are the
    processor's, read from the machine if not given.
    """
    if model.device.type != "cpu":
        return str(Kernel.TORCH)
    flags = cpu_flags() if flags is None else flags
    _let_go_of_the_file(model)
    lean = {type(layer).__name__ for layer in model.model.layers} <= LEAN_LAYERS
    if lean and fits(model.config) and not _has_other_biases(model):
        library = open_library(flags)
        if isinstance(library, Library):
            _compute_natively(model, library)
            return f"native-{library.level}"
        logger.warning("no compiled kernels, steps take up to twice as long: %s", library)
    return _compute_in_torch(model, choose_kernel(flags, model.dtype), lean=lean)


def linear_maker(
    device: torch.device, dtype: torch.dtype
) -> Callable[[torch.Tensor, torch.Tensor | None], torch.nn.Module]:
    """Give what makes a linear layer of weight and bias with the best kernel for this processor."""
    flags = cpu_flags()
    on_cpu = device.type == "cpu"
    library = open_library(flags) if on_cpu else "not a processor"
    kernel = choose_kernel(flags, dtype) if on_cpu else Kernel.TORCH

    def linear(weight: torch.Tensor, bias: torch.Tensor | None) -> torch.nn.Module:
        if isinstance(library, Library) and NativeLinear.fits(weight):
            return NativeLinear(weight, bias, library)
        return linear_of(kernel, weight, bias)

    return linear


def _let_go_of_the_file(model: Any) -> None:
    """Copy what no kernel lays out anew. Weights are read as views of the mapped file.

    One view that is left keeps all pages of the file resident, beside the weights as the kernels hold them.
    """
    for module in model.modules():
        if not isinstance(module, torch.nn.Linear):
            for weight in module.parameters(recurse=False):
                weight.data = weight.data.clone()


def _has_other_biases(model: Any) -> bool:
    """Whether a product has a bias that the library leaves out: it adds those of queries, keys and values."""
    products = [model.lm_head]
    for layer in model.model.layers:
        products += [layer.self_attn.o_proj, layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj]
    return any(product.bias is not None for product in products)


def _compute_natively(model: Any, library: Library) -> None:
    decoder = model.model
    tied = model.lm_head.weight is decoder.embed_tokens.weight
    decoder.rotary_emb = NativeRotary(decoder.rotary_emb)
    for index, layer in enumerate(decoder.layers):
        decoder.layers[index] = NativeLayer(layer, library)
    model.lm_head = NativeHead(model.lm_head.weight.detach(), library)
    if tied:
        decoder.embed_tokens = NativeEmbedding(model.lm_head)


def _compute_in_torch(model: Any, kernel: Kernel, *, lean: bool) -> str:
    decoder = model.model
    if lean:
        decoder.rotary_emb = SignedRotary(decoder.rotary_emb)
    for index, layer in enumerate(decoder.layers):
        if lean:
            decoder.layers[index] = LeanLayer(layer, lambda one: linear_for(kernel, one))
        else:
            _replace_linears(layer, kernel)
    model.lm_head = linear_for(kernel, model.lm_head)
    return f"{kernel}{'-lean' if lean else ''}"


def _replace_linears(layer: torch.nn.Module, kernel: Kernel) -> None:
    for module in list(layer.modules()):
        for name, child in list(module.named_children()):
            if type(child) is torch.nn.Linear:
                setattr(module, name, linear_for(kernel, child))
