"""Puts the kernels into a loaded model. The weights move, so that none is held twice."""

from typing import Any

import torch

from specfleet_engine.kernels.capability import Kernel, choose_kernel, cpu_flags
from specfleet_engine.kernels.layers import LEAN_LAYERS, LeanLayer, SignedRotary
from specfleet_engine.kernels.linear import linear_for

__all__ = ["speed_up"]


def speed_up(model: Any, flags: frozenset[str] | None = None) -> str:
    """Let ``model`` compute with the best kernels for this processor, in place; say which for the log.

    ``model`` is a causal language model of transformers with the engine's attention. ``flags`` are the
    processor's, read from the machine if not given.
    """
    if model.device.type != "cpu":
        return str(Kernel.TORCH)
    kernel = choose_kernel(cpu_flags() if flags is None else flags, model.dtype)
    decoder = model.model
    lean = {type(layer).__name__ for layer in decoder.layers} <= LEAN_LAYERS
    if lean:
        decoder.rotary_emb = SignedRotary(decoder.rotary_emb)
    for index, layer in enumerate(decoder.layers):
        if lean:
            decoder.layers[index] = LeanLayer(layer, lambda one: linear_for(kernel, one))
        else:
            _replace_linears(layer, kernel)
    model.lm_head = linear_for(kernel, model.lm_head)
    return f"{kernel}{'+lean' if lean else ''}"


def _replace_linears(layer: torch.nn.Module, kernel: Kernel) -> None:
    for module in list(layer.modules()):
        for name, child in list(module.named_children()):
            if type(child) is torch.nn.Linear:
                setattr(module, name, linear_for(kernel, child))
