"""EAGLE-3 heads, in their original form and in that of the speculators library.

Source: reference/checkpoints.md, sections 2, 3 and 9.
"""

from collections.abc import Iterator

import numpy as np

from specfleet_preflight.checkpoint import Checkpoint, mismatches
from specfleet_preflight.formats import Format
from specfleet_preflight.layer import layer_tensors, optional_tensors
from specfleet_preflight.sizes import position_faults, same_width, verifier_faults, vocabulary_faults
from specfleet_preflight.start import Start
from specfleet_preflight.target import Target
from specfleet_preflight.tensor import Shape

__all__ = ["eagle3_faults", "eagle3_notes"]

_STATES = 3
_ANOTHER = "name a head that was made for this model"


def eagle3_faults(head: Checkpoint, form: Format, target: Target, start: Start) -> Iterator[str]:
    """Say why the head cannot draft for the target. Raises Unreadable."""
    plain = head.text
    width = head.number("target_hidden_size", plain.number("hidden_size"))
    yield from same_width("target hidden size", width, target.hidden)
    yield from vocabulary_faults(plain.number("vocab_size"), target)
    yield from verifier_faults(head, target)
    yield from position_faults(head, start)
    yield from _layer_faults(head, target)
    drafted = head.number("draft_vocab_size", plain.number("vocab_size"))
    if drafted > target.vocabulary:
        yield from same_width("draft vocabulary", drafted, target.vocabulary)
        return
    if head.quantisation is None:
        wanted, optional = _tensors(head, form, width, drafted, target)
        for fault in mismatches(head.tensors, wanted, optional):
            yield f"{fault}: name a revision whose tensors are those of its config"
    yield from _mapping_faults(head, drafted, target)


def _layers(head: Checkpoint, target: Target) -> tuple[object, ...]:
    named = head.setting("eagle_aux_hidden_state_layer_ids")
    if isinstance(named, list) and named:
        return tuple(named)
    return (2, target.layers // 2, target.layers - 3)


def _layer_faults(head: Checkpoint, target: Target) -> Iterator[str]:
    """Engines find out at the first request: equal ids collapse, and the joined states have another width."""
    layers, count = _layers(head, target), target.layers
    known = all(isinstance(layer, int) and 0 <= layer < count for layer in layers)
    if known and len(set(layers)) == len(layers):
        return
    yield (
        f"it reads the states that enter different layers, and {layers} are not that in a model of {count} "
        "layers: write the right ones as eagle_aux_hidden_state_layer_ids into its config.json, or name a "
        "model with more layers"
    )


def _tensors(
    head: Checkpoint, form: Format, width: int, drafted: int, target: Target
) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """Name the tensors that must be there, and those that may."""
    plain = head.text
    hidden, states = plain.number("hidden_size"), len(_layers(head, target))
    prefix = "midlayer." if form is Format.EAGLE3 else "layers.0."
    wanted: dict[str, Shape] = {
        "fc.weight": (hidden, states * width),
        "norm.weight": (hidden,),
        f"{prefix}input_layernorm.weight": (hidden,),
        f"{prefix}hidden_norm.weight": (hidden,),
        **layer_tensors(prefix, plain, 2 * hidden),
    }
    optional = optional_tensors(prefix, plain)
    for layer in range(1, plain.number("num_hidden_layers", 1)):
        # Only the first layer reads the embedding beside the state.
        name = f"layers.{layer}."
        wanted |= {**layer_tensors(name, plain, hidden), f"{name}input_layernorm.weight": (hidden,)}
        optional |= {**optional_tensors(name, plain), f"{name}hidden_norm.weight": (hidden,)}
    # What the target lends must have its width; its head knows the whole vocabulary only.
    borrows = hidden == target.hidden
    (optional if borrows else wanted)["embed_tokens.weight"] = (plain.number("vocab_size"), hidden)
    whole = drafted == plain.number("vocab_size")
    (optional if borrows and whole else wanted)["lm_head.weight"] = (drafted, hidden)
    (optional if whole else wanted)["d2t"] = (drafted,)
    optional["t2d"] = (plain.number("vocab_size"),)
    if head.setting("norm_before_fc"):
        wanted["input_norm.weight"] = (states * width,)
    if head.setting("fc_norm"):
        wanted |= {f"fc_norm.{place}.weight": (width,) for place in range(states)}
    return wanted, optional


def _mapping_faults(head: Checkpoint, drafted: int, target: Target) -> Iterator[str]:
    """d2t holds offsets: id i of the draft is id i + d2t[i] of the target. Read as ids it fails here."""
    if "d2t" not in head.tensors or head.tensors["d2t"].shape != (drafted,):
        return
    ids = np.arange(drafted) + head.integers("d2t")
    if ids.min() < 0 or ids.max() >= target.vocabulary:
        yield f"its d2t leads outside the model's {target.vocabulary} ids: it must hold offsets; {_ANOTHER}"
    elif len(np.unique(ids)) < drafted:
        yield f"its d2t leads two of its tokens to the same id of the model: it must hold offsets; {_ANOTHER}"
    elif "t2d" in head.tensors:
        named = np.flatnonzero(head.integers("t2d"))
        if not np.array_equal(np.sort(ids), named):
            yield f"its d2t and t2d name different tokens: {_ANOTHER}"


def eagle3_notes(head: Checkpoint, target: Target) -> Iterator[str]:
    """Say what may make drafts worthless without being a fault.

    A target whose weights were rotated to be quantised may lend an embedding that means something else
    (vllm-project/vllm-ascend#7038: 7 % accepted); which rotations reach the embedding no config tells.
    """
    quantised = target.checkpoint.config.get("quantization_config")
    rotated = isinstance(quantised, dict) and quantised.get("transform_config")
    if rotated and "embed_tokens.weight" not in head.tensors:
        yield (
            "it borrows the model's embedding, which quantisation may have rotated (transform_config): if "
            "next to nothing is accepted, name a head that brings its own"
        )
