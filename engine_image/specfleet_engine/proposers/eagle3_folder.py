"""Reading EAGLE-3 heads: the original form and the one of the speculators library.

The forms differ in names and in where the layer's config lies. Everything that other loaders pass over in
silence is refused here (checkpoints.md, section 9).
"""

import logging
from dataclasses import replace
from typing import Any

import torch

from specfleet_engine.errors import ProposerRefused
from specfleet_engine.proposers.eagle3 import Eagle3Head, Norms
from specfleet_engine.proposers.folder import Folder, Shape
from specfleet_engine.proposers.formats import Format
from specfleet_engine.proposers.layer import LayerSizes, layer_tensors, sizes_from
from specfleet_engine.proposers.proposer import Needs
from specfleet_engine.proposers.rotary import read_rotary
from specfleet_engine.proposers.target import Target, same_size, warn_of_a_foreign_table

__all__ = ["read_eagle3"]

logger = logging.getLogger(__name__)

_STATES = 3


def read_eagle3(folder: Folder, form: Format, target: Target) -> Eagle3Head:
    """Read an EAGLE-3 head for ``target``. Raises ProposerRefused."""
    inner = folder.config.get("transformer_layer_config")
    plain = replace(folder, config=inner) if isinstance(inner, dict) else folder
    sizes = sizes_from(plain)
    same_size(folder, "target hidden size", _target_width(folder, sizes), target.hidden_size)
    same_size(folder, "vocabulary", plain.whole_number("vocab_size"), target.vocabulary_size)
    _check_verifier(folder, target)
    needs = Needs(entering=_layers_of(folder, target))
    weights = _take(folder, "midlayer." if form is Format.EAGLE3 else "layers.0.", sizes, target)
    _check_vocabulary(folder, weights, target)
    if "embed_tokens.weight" in weights:
        warn_of_a_foreign_table(folder, weights["embed_tokens.weight"], target)
    rotary = read_rotary(plain, sizes.head_size, target.device)
    return Eagle3Head(weights, sizes, _norms(folder, weights), rotary, needs, target)


def _target_width(folder: Folder, sizes: LayerSizes) -> int:
    return folder.whole_number("target_hidden_size", sizes.hidden)


def _layers_of(folder: Folder, target: Target) -> tuple[int, ...]:
    """Which layers' entering states the head was trained on.

    Raises ProposerRefused for what other engines find out at the first request.
    """
    count = target.layers
    named = folder.setting("eagle_aux_hidden_state_layer_ids")
    layers = tuple(named) if isinstance(named, list) and named else (2, count // 2, count - 3)
    known = all(isinstance(layer, int) and 0 <= layer < count for layer in layers)
    if not known or len(set(layers)) != _STATES:
        raise ProposerRefused(
            f"an EAGLE-3 head reads the states that enter {_STATES} different layers, and {layers} are not "
            f"that in a model of {count} layers: write the right ones as eagle_aux_hidden_state_layer_ids "
            f"into {folder.path / 'config.json'}"
        )
    return layers


def _take(folder: Folder, prefix: str, sizes: LayerSizes, target: Target) -> dict[str, torch.Tensor]:
    """Give the tensors without the layer's prefix, on the target's device and of its type."""
    hidden, joined = sizes.hidden, _STATES * target.hidden_size
    vocabulary = folder.whole_number("draft_vocab_size", target.vocabulary_size)
    if vocabulary > target.vocabulary_size:
        same_size(folder, "draft vocabulary", vocabulary, target.vocabulary_size)
    wanted: dict[str, Shape] = {
        "fc.weight": (hidden, joined),
        "norm.weight": (hidden,),
        f"{prefix}input_layernorm.weight": (hidden,),
        f"{prefix}hidden_norm.weight": (hidden,),
        **layer_tensors(prefix, sizes, 2 * hidden),
    }
    optional: dict[str, Shape] = {}
    if vocabulary < target.vocabulary_size:
        wanted |= {"d2t": (vocabulary,), "lm_head.weight": (vocabulary, hidden)}
        optional["t2d"] = (target.vocabulary_size,)
    else:
        optional |= {"d2t": (vocabulary,), "t2d": (vocabulary,)}
        # The target's own head may stand in, if it reads the same width.
        may_borrow = hidden == target.hidden_size
        (optional if may_borrow else wanted)["lm_head.weight"] = (vocabulary, hidden)
    # So may its embedding.
    may_borrow = hidden == target.hidden_size
    (optional if may_borrow else wanted)["embed_tokens.weight"] = (target.vocabulary_size, hidden)
    if folder.setting("norm_before_fc"):
        wanted["input_norm.weight"] = (joined,)
    if folder.setting("fc_norm"):
        wanted |= {f"fc_norm.{place}.weight": (target.hidden_size,) for place in range(_STATES)}
    weights = folder.take(wanted, optional)
    return {name.removeprefix(prefix): _place(tensor, target) for name, tensor in weights.items()}


def _place(tensor: torch.Tensor, target: Target) -> torch.Tensor:
    # d2t and t2d keep their type.
    return tensor.to(target.device, target.dtype if tensor.is_floating_point() else None)


def _norms(folder: Folder, weights: dict[str, torch.Tensor]) -> Norms:
    before_residual = folder.setting("norm_before_residual")
    if before_residual is None:
        if "speculators_model_type" in folder.config:
            logger.info(
                "%s does not say norm_before_residual: taken as false, as the speculators library does; "
                "a head that was trained with it will show a low acceptance",
                folder.path,
            )
        before_residual = False
    return Norms(
        before_residual=bool(before_residual),
        output=bool(folder.setting("norm_output", False)),
        joined=weights.get("input_norm.weight"),
        each=tuple(weights[name] for name in sorted(weights) if name.startswith("fc_norm.")),
    )


def _check_vocabulary(folder: Folder, weights: dict[str, torch.Tensor], target: Target) -> None:
    """d2t holds offsets: id i of the draft is id i + d2t[i] of the target. Read as ids it fails here."""
    if "d2t" not in weights:
        if "t2d" in weights and not bool(weights["t2d"].bool().all()):
            raise ProposerRefused(f"{folder.path} has a t2d that leaves tokens out, and no d2t")
        return
    offsets = weights["d2t"]
    ids = torch.arange(len(offsets), device=offsets.device) + offsets
    if not bool(((ids >= 0) & (ids < target.vocabulary_size)).all()):
        raise ProposerRefused(
            f"d2t in {folder.path} leads outside the vocabulary of {target.vocabulary_size}: it must hold "
            f"offsets (target id - draft id), not ids"
        )
    if len(set(ids.tolist())) != len(ids):
        raise ProposerRefused(f"d2t in {folder.path} leads two draft tokens to the same target token")
    if "t2d" in weights:
        marked = torch.zeros(target.vocabulary_size, dtype=torch.bool, device=ids.device)
        marked[ids] = True
        if not torch.equal(marked, weights["t2d"].bool()):
            raise ProposerRefused(f"d2t and t2d in {folder.path} name different tokens")


def _check_verifier(folder: Folder, target: Target) -> None:
    """Compare what a speculators config says about its target; another path is only worth a line."""
    section: Any = folder.config.get("speculators_config") or {}
    verifier = section.get("verifier") or {}
    named = verifier.get("architectures") or []
    if named and target.architecture not in named:
        raise ProposerRefused(
            f"the head in {folder.path} was made for a {', '.join(named)}, and the model is a "
            f"{target.architecture}"
        )
    if path := verifier.get("name_or_path"):
        logger.info("the head in %s was made for %s", folder.path, path)
