"""The served model: the sizes that a proposer has to fit, and whether it can be served at all."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specfleet_preflight.checkpoint import Checkpoint
from specfleet_preflight.quantisation import quantisation_faults
from specfleet_preflight.start import Start
from specfleet_preflight.tokenizer import Vocabulary

__all__ = ["Target", "model_faults", "positions", "read_target"]

# GPT-2 and families after it call the list of layers h.
_LAYER = re.compile(r"(?:^|\.)(?:layers|h)\.([0-9]+)\.")
# Kinds of rotary scaling whose config states the stretched length already.
_STATED = (None, "default", "su", "longrope", "llama3", "mrope")


@dataclass(frozen=True, slots=True)
class Target:
    """Sizes of the served model; ``tokens``: what its tokenizer knows, None: it could not be read."""

    checkpoint: Checkpoint
    layers: int
    hidden: int
    vocabulary: int
    tokens: Vocabulary | None

    @property
    def used_ids(self) -> int:
        """Ids from here on only pad the tables."""
        return self.vocabulary if self.tokens is None else self.tokens.size


def read_target(checkpoint: Checkpoint, tokens: Vocabulary | None) -> Target:
    """Read the sizes of a language model, also inside a multimodal one. Raises Unreadable."""
    text = checkpoint.text
    return Target(
        checkpoint,
        text.number("num_hidden_layers"),
        text.number("hidden_size"),
        text.number("vocab_size"),
        tokens,
    )


def positions(config: Mapping[str, Any]) -> int | None:
    """Longest sequence that a config allows, rotary scaling included; None: it does not say."""
    stated = config.get("max_position_embeddings", config.get("n_positions"))
    if not isinstance(stated, int):
        return None
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    factor = scaling.get("factor", 1.0)
    if kind in _STATED or not isinstance(factor, int | float):
        return stated
    return int(factor * scaling.get("original_max_position_embeddings", stated))


def model_faults(target: Target, start: Start) -> Iterator[str]:
    """Say why the model cannot be served, whatever drafts for it."""
    checkpoint, text = target.checkpoint, target.checkpoint.text
    if checkpoint.architecture == "none":
        yield f"config.json in {checkpoint.path} names no architecture: name the folder of a language model"
    longest = positions(text.config)
    if longest is not None and start.max_model_len > longest and not start.stretched:
        yield (
            f"engine.maxModelLen {start.max_model_len} is more than the model's {longest} positions: "
            f"write {longest} or less"
        )
    yield from quantisation_faults(checkpoint.quantisation, start.quantization)
    found = {int(match[1]) for name in checkpoint.tensors if (match := _LAYER.search(name))}
    if found and len(found) < target.layers:
        yield (
            f"its config names {target.layers} layers and its files hold {len(found)}: fetch the model "
            "again, or name a revision that is whole"
        )
    rows = [
        tensor.shape[0] for name, tensor in checkpoint.tensors.items() if name.endswith("embed_tokens.weight")
    ]
    if rows and target.vocabulary not in rows and checkpoint.quantisation is None:
        yield (
            f"its config names a vocabulary of {target.vocabulary} and its embedding has {rows[0]} rows: "
            "name a revision whose files are those of its config"
        )
