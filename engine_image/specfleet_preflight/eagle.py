"""EAGLE-1 heads, which EAGLE-2 shares: one layer over the target's last state, and the target's own head.

Source: reference/checkpoints.md, section 4.
"""

from collections.abc import Iterator

from specfleet_preflight.checkpoint import Checkpoint, mismatches
from specfleet_preflight.layer import layer_tensors, optional_tensors
from specfleet_preflight.sizes import position_faults, same_width, vocabulary_faults
from specfleet_preflight.start import Start
from specfleet_preflight.target import Target
from specfleet_preflight.tensor import Shape

__all__ = ["eagle_faults"]


def eagle_faults(head: Checkpoint, target: Target, start: Start) -> Iterator[str]:
    """Say why the head cannot draft for the target. Raises Unreadable."""
    hidden = head.number("hidden_size")
    yield from same_width("hidden size", hidden, target.hidden)
    yield from vocabulary_faults(head.number("vocab_size"), target)
    yield from position_faults(head, start)
    if head.quantisation is not None:
        return  # Packed weights have other names and shapes.
    wanted: dict[str, Shape] = {"fc.weight": (hidden, 2 * hidden)}
    optional: dict[str, Shape] = {"embed_tokens.weight": (head.number("vocab_size"), hidden)}
    for layer in range(head.number("num_hidden_layers", 1)):
        wanted |= layer_tensors(f"layers.{layer}.", head, hidden)
        optional |= optional_tensors(f"layers.{layer}.", head)
        if layer > 0:
            wanted[f"layers.{layer}.input_layernorm.weight"] = (hidden,)
    # A bias that the config promises must be there; vLLM knows none and stops at one.
    if head.config.get("bias") is True:
        wanted["fc.bias"] = (hidden,)
    if start.engine != "vllm":
        optional["fc.bias"] = (hidden,)
    for fault in mismatches(head.tensors, wanted, optional):
        yield f"{fault}: name a revision whose tensors are those of its config"
