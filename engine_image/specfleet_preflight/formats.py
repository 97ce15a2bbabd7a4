"""Which kind of proposer lies in a folder, told by its tensors.

Neither ``architectures`` nor a repository's name can tell: EAGLE-3 originals and EAGLE-1 heads may both call
themselves LlamaForCausalLM. Source: reference/checkpoints.md, section 1.
"""

import re
from collections.abc import Iterator
from enum import Enum

from specfleet_preflight.checkpoint import Checkpoint

__all__ = ["Format", "format_faults", "format_of"]


class Format(Enum):
    """A checkpoint form: what a person calls it, and the method that serves it."""

    EAGLE1 = ("an EAGLE-1 head", "eagle")
    EAGLE3 = ("an EAGLE-3 head in its original form", "eagle3")
    EAGLE3_SPECULATORS = ("an EAGLE-3 head in speculators form", "eagle3")
    MEDUSA = ("Medusa heads in their original form", "medusa")
    MEDUSA_BLOCKS = ("Medusa heads in vLLM's form", "medusa")
    MODEL = ("a causal language model", "draftModel")

    @property
    def words(self) -> str:
        return self.value[0]

    @property
    def method(self) -> str:
        return self.value[1]


# A layer of a model that has its list of layers as a part; GPT-2 and families after it call the list h.
_LAYER = re.compile(r"\.layers\.|(?:^|\.)h\.[0-9]+\.")
_FIRST_QUERY = "layers.0.self_attn.q_proj.weight"


def format_of(folder: Checkpoint) -> Format | None:
    """Tell the form of a proposer; None: none that is known."""
    names = folder.tensors.keys()
    if any(name.startswith("midlayer.") for name in names):
        return Format.EAGLE3
    if "fc.weight" in names and _FIRST_QUERY in names:
        # The width that its attention reads is the sign that no size can imitate: [embedding, state] or one.
        wide = folder.tensors[_FIRST_QUERY].shape[-1] == 2 * folder.tensors["fc.weight"].shape[0]
        return Format.EAGLE3_SPECULATORS if wide else Format.EAGLE1
    if any(name.endswith(".linear.weight") and name[0].isdigit() for name in names):
        return Format.MEDUSA
    if "lm_heads.0.weight" in names:
        return Format.MEDUSA_BLOCKS
    if any(_LAYER.search(name) for name in names):
        return Format.MODEL
    return None


def format_faults(folder: Checkpoint, method: str) -> Iterator[str]:
    """Say whether ``method`` can read what lies there."""
    kind = folder.config.get("speculators_model_type")
    if kind not in (None, "eagle3"):
        yield f"it is a speculators {kind!r} head, which no method of specfleet serves: name an eagle3 one"
        return
    form = format_of(folder)
    if form is None:
        shown = ", ".join(sorted(folder.tensors)[:3])
        yield f"its form is not known, its tensors begin with {shown}: name a proposer for method {method}"
    elif form.method != method:
        yield f"it is {form.words}: write method {form.method}, or name a proposer for method {method}"
