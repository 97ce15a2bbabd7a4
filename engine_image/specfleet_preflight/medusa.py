"""Medusa heads, in their original form and in the one that vLLM wrote.

Source: reference/checkpoints.md, section 5; vLLM 0.32, `transformers_utils/configs/medusa.py`.
"""

from collections.abc import Callable, Iterator
from itertools import count

from specfleet_preflight.checkpoint import Checkpoint, mismatches
from specfleet_preflight.formats import Format
from specfleet_preflight.sizes import same_width
from specfleet_preflight.start import Start
from specfleet_preflight.target import Target
from specfleet_preflight.tensor import Shape

__all__ = ["medusa_faults"]

# Names of a block, without .weight and .bias, and of the linear to the vocabulary.
_NAMES = {
    Format.MEDUSA: ("{head}.{layer}.linear", "{head}.{layer}"),
    Format.MEDUSA_BLOCKS: ("blocks.{head}.layers.{layer}", "lm_heads.{head}"),
}
# What vLLM's MedusaConfig takes for keys that are absent.
_DEFAULTS = {"heads": 5, "layers": 1, "hidden_size": 4096}


def medusa_faults(folder: Checkpoint, form: Format, target: Target, start: Start) -> Iterator[str]:
    """Say why the heads cannot draft for the target. Raises Unreadable.

    Engines build what the config says and fill it from the file; what the file lacks stays random.
    """
    block, output = _NAMES[form]
    heads = _run_length(folder, lambda number: block.format(head=number, layer=0))
    layers = _run_length(folder, lambda number: block.format(head=0, layer=number))
    if "hidden_size" in folder.config:
        yield from same_width("hidden size", folder.number("hidden_size"), target.hidden)
    elif target.hidden != _DEFAULTS["hidden_size"]:
        yield (
            f"its config has no hidden_size, which {start.label} takes for {_DEFAULTS['hidden_size']}: write "
            f"hidden_size {target.hidden} into its config.json"
        )
    for what, there in (("heads", heads), ("layers", layers)):
        said = _said(folder, what)
        if said > there:
            yield (
                f"its config means {said} {what} (medusa_num_{what}, {_DEFAULTS[what]} if absent) and its "
                f"file holds {there}: write {there} into its config.json"
            )
    usable = min(heads, _said(folder, "heads"))
    if start.max_depth > usable:
        # vLLM runs medusa at its start-up depth.
        yield f"speculation.depth.initial {start.max_depth} needs as many heads and it has {usable}: lower it"
    biased = form is Format.MEDUSA or bool(
        folder.config.get("medusa_fc_bias", f"{block.format(head=0, layer=0)}.bias" in folder.tensors)
    )
    wanted: dict[str, Shape] = {}
    for head in range(heads):
        wanted[f"{output.format(head=head, layer=layers)}.weight"] = (target.vocabulary, target.hidden)
        for layer in range(layers):
            name = block.format(head=head, layer=layer)
            wanted[f"{name}.weight"] = (target.hidden, target.hidden)
            if biased:
                wanted[f"{name}.bias"] = (target.hidden,)
    for fault in mismatches(folder.tensors, wanted, {}):
        yield f"{fault}: name heads that were made for this model"


def _said(folder: Checkpoint, what: str) -> int:
    """Read a count as vLLM does: any key with "num" and the word in it."""
    for name in (f"medusa_num_{what}", f"num_{what}", f"num_hidden_{what}"):
        if name in folder.config:
            return folder.number(name)
    return _DEFAULTS[what]


def _run_length(folder: Checkpoint, name: Callable[[int], str]) -> int:
    """How many of the names, counted from 0 without a gap, have a weight; at least 1, to be asked for."""
    return max(1, next(number for number in count() if f"{name(number)}.weight" not in folder.tensors))
