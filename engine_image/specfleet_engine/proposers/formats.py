"""Which kind of proposer lies in a folder, told by its tensors.

Neither ``architectures`` nor the folder's name can tell: EAGLE-3 originals and EAGLE-1 heads may both call
themselves LlamaForCausalLM (checkpoints.md, section 1).
"""

from enum import Enum

from specfleet_engine.errors import ProposerRefused
from specfleet_engine.proposers.folder import Folder

__all__ = ["Format", "expect_format", "format_of"]


class Format(Enum):
    """A checkpoint form; the value says what a person calls it."""

    EAGLE1 = "an EAGLE-1 head"
    EAGLE3 = "an EAGLE-3 head in its original form"
    EAGLE3_SPECULATORS = "an EAGLE-3 head in speculators form"
    MEDUSA = "Medusa heads in their original form"
    MEDUSA_BLOCKS = "Medusa heads in vLLM's form"
    MODEL = "a causal language model"

    @property
    def method(self) -> str:
        """The method that serves it."""
        return _METHODS[self]


_METHODS = {
    Format.EAGLE1: "eagle",
    Format.EAGLE3: "eagle3",
    Format.EAGLE3_SPECULATORS: "eagle3",
    Format.MEDUSA: "medusa",
    Format.MEDUSA_BLOCKS: "medusa",
    Format.MODEL: "draftModel",
}

_FIRST_QUERY = "layers.0.self_attn.q_proj.weight"


def format_of(folder: Folder) -> Format:
    """Tell the form of a proposer. Raises ProposerRefused for one that is not known."""
    kind = folder.config.get("speculators_model_type")
    if kind not in (None, "eagle3"):
        raise ProposerRefused(
            f"the proposer in {folder.path} is a speculators {kind!r}, which is not served: "
            f"of that format eagle3 is"
        )
    names = folder.tensors.keys()
    if any(name.startswith("midlayer.") for name in names):
        return Format.EAGLE3
    if "fc.weight" in names and _FIRST_QUERY in names:
        # The width that its attention reads is the sign that no size can imitate: [embedding, state] or one.
        hidden = folder.tensors["fc.weight"].shape[0]
        wide = folder.tensors[_FIRST_QUERY].shape[-1] == 2 * hidden
        return Format.EAGLE3_SPECULATORS if wide else Format.EAGLE1
    if any(name.endswith(".linear.weight") and name[0].isdigit() for name in names):
        return Format.MEDUSA
    if "lm_heads.0.weight" in names:
        return Format.MEDUSA_BLOCKS
    if any(name.startswith("model.layers.") for name in names):
        return Format.MODEL
    shown = ", ".join(sorted(names)[:4])
    raise ProposerRefused(f"the proposer in {folder.path} has no known form: its tensors begin with {shown}")


def expect_format(folder: Folder, method: str) -> Format:
    """Tell the form, which must be one that ``method`` serves. Raises ProposerRefused."""
    form = format_of(folder)
    if form.method != method:
        raise ProposerRefused(
            f"{folder.path} has {form.value}, which method {form.method} serves, not method {method}"
        )
    return form
