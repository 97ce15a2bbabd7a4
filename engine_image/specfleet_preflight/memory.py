"""What the pod will hold on each device: weights of both, KV caches of both, in bytes and in tokens.

A plan and not a measurement: activations, graphs and buffers come on top, and stages are taken to be filled
alike, which no other split of the layers beats. So only what cannot fit even so is refused.
Source: design/tuning.md, section 10; vllm-project/vllm#9995, #14067.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from specfleet_preflight.checkpoint import Checkpoint
from specfleet_preflight.start import Start
from specfleet_preflight.target import Target

__all__ = ["Holding", "MemoryPlan", "holding", "plan_memory"]

_MIB = 1 << 20
# What engines take of a device's memory by default, weights and KV cache together.
_USUAL_SHARE = 0.9
# In the names of routed experts, in every family; shared experts are part of their layer.
_EXPERTS = ".experts."


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes on one device: weights, and KV cache for each token. Windowed layers do not count."""

    weights: float
    kv_per_token: float


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The sum for one start."""

    target: Holding
    proposer: Holding
    start: Start

    def tokens(self, *, with_proposer: bool = True, share: float = 1.0) -> int | None:
        """How many tokens of KV cache fit beside the weights; None: nobody said how much memory there is."""
        if self.start.memory_bytes is None:
            return None
        held = self.target.weights + (self.proposer.weights if with_proposer else 0)
        each = self.target.kv_per_token + (self.proposer.kv_per_token if with_proposer else 0)
        free = self.start.memory_bytes * share - held
        return max(0, math.floor(free / each)) if each else None

    def __str__(self) -> str:
        start = self.start
        parts = [
            f"weights {self.target.weights / _MIB:,.0f} MiB and {self.proposer.weights / _MIB:,.0f} MiB of "
            f"the proposer on each of {start.devices} devices",
            f"KV cache {self.target.kv_per_token:,.0f} + {self.proposer.kv_per_token:,.0f} bytes a token",
            f"lookahead {start.max_num_seqs * start.max_depth} tokens for {start.max_num_seqs} requests",
        ]
        tokens = self.tokens(share=_USUAL_SHARE)
        if tokens is not None and start.memory_bytes is not None:
            parts.append(
                f"{tokens:,} tokens fit into {_USUAL_SHARE:.0%} of {start.memory_bytes / _MIB:,.0f} MiB, "
                f"{tokens // start.max_num_seqs:,} for each request, before activations"
            )
        return "; ".join(parts)

    def model_faults(self) -> Iterator[str]:
        """Say why the model alone does not fit."""
        yield from self._faults(with_proposer=False)

    def proposer_faults(self) -> Iterator[str]:
        """Say why the proposer does not fit beside a model that fits alone."""
        if not any(self._faults(with_proposer=False)):
            yield from self._faults(with_proposer=True)

    def _faults(self, *, with_proposer: bool) -> Iterator[str]:
        start, tokens = self.start, self.tokens(with_proposer=with_proposer)
        if tokens is None or start.memory_bytes is None:
            return
        beside = " beside the model" if with_proposer else ""
        depth = start.max_depth if with_proposer else 0
        drafted = f" and {depth} drafted ones" if depth else ""
        if tokens == 0:
            held = self.target.weights + (self.proposer.weights if with_proposer else 0)
            yield (
                f"weights of {held / _MIB:,.0f} MiB do not fit into {start.memory_bytes / _MIB:,.0f} MiB of "
                f"a device{beside}: raise engine.tensorParallelSize, or take a larger GPU or a smaller or "
                "quantised one"
            )
        elif tokens < start.max_model_len + depth:
            yield (
                f"{tokens:,} tokens of KV cache fit{beside}, and one request may have "
                f"{start.max_model_len:,}{drafted}: lower engine.maxModelLen to "
                f"{max(1, tokens - depth):,}, or raise engine.tensorParallelSize"
            )
        elif tokens < start.max_num_seqs * (1 + depth):
            yield (
                f"{tokens:,} tokens of KV cache fit{beside}, and {start.max_num_seqs:,} requests with "
                f"{depth} drafted tokens each need more: lower engine.maxNumSeqs to "
                f"{tokens // (1 + depth):,} or the depth"
            )


def plan_memory(target: Target, proposer: Checkpoint, start: Start) -> MemoryPlan:
    """Add up for one start. Raises Unreadable for a config without sizes."""
    own = proposer.text if start.method != "medusa" else None
    model = holding(target.checkpoint, target.checkpoint.text, start)
    stay = max(0.0, model.weights - start.offloaded_bytes)
    return MemoryPlan(replace(model, weights=stay), holding(proposer, own, start), start)


def holding(folder: Checkpoint, layers: Checkpoint | None, start: Start) -> Holding:
    """Count one folder. ``layers``: whose config describes layers with a KV cache; None: it keeps none."""
    # Quantised while it is loaded: how far is the method's matter, four bits are the least.
    quantised_on_load = start.quantization is not None and folder.quantisation is None
    element = 0.5 if quantised_on_load else float(start.element_bytes)
    weights = sum(
        tensor.bytes_as(element) / (start.devices if _EXPERTS in name else _sharing_layers(start))
        for name, tensor in folder.tensors.items()
    )
    if layers is None:
        return Holding(weights, 0.0)
    return Holding(weights, _kv_per_token(layers, start) / start.pipeline_parallel / start.context_parallel)


def _sharing_layers(start: Start) -> int:
    return start.pipeline_parallel * start.tensor_parallel


def _kv_per_token(config: Checkpoint, start: Start) -> float:
    layers = _full_layers(config)
    if isinstance(latent := config.config.get("kv_lora_rank"), int):
        # Latent attention: one compressed entry, the same on every device.
        return layers * (latent + int(config.config.get("qk_rope_head_dim") or 0)) * start.kv_element_bytes
    queries = config.number("num_attention_heads")
    shared = 1 if config.config.get("multi_query") else queries
    keys = math.ceil(config.number("num_key_value_heads", shared) / start.tensor_parallel)
    size = config.number("head_dim", config.number("hidden_size") // queries)
    return layers * 2 * keys * size * start.kv_element_bytes


def _full_layers(config: Checkpoint) -> int:
    """Layers that keep every token; those with a window or a recurrent state keep a bounded number."""
    kinds = config.config.get("layer_types")
    if isinstance(kinds, list) and kinds:
        return sum(kind == "full_attention" for kind in kinds)
    windowed = config.config.get("sliding_window") and config.config.get("use_sliding_window", True)
    return 0 if windowed else config.number("num_hidden_layers", 1)
