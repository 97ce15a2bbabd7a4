"""Tiny proposers, built in code (reference: checkpoints.md, section 6).

Those of family A have random weights and fit `checkpoints.save_random`; those of family C have weights in
closed form over a `checkpoints.save_markov` whose likeliest next tokens make a cycle, and their acceptance
is known without running them.
"""

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tests.integration.engine.checkpoints import (
    VOCABULARY,
    Matrix,
    cycle_matrix,
    save_markov,
    save_random,
)

Tensors = dict[str, torch.Tensor]

HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, HEAD_SIZE = 128, 256, 4, 2, 32
DRAFT_VOCABULARY = 320
EPS = 1e-6
LAYER_CONFIG = {
    "hidden_size": HIDDEN,
    "intermediate_size": FEED_FORWARD,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_SIZE,
    "num_hidden_layers": 1,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": EPS,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 1024,
    "hidden_act": "silu",
    "model_type": "llama",
}

# A cycle through 64 tokens, in an order without a pattern.
CYCLE = tuple(np.random.default_rng(5).permutation(64).tolist())


def save(folder: Path, config: Mapping[str, Any], tensors: Tensors) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return folder


def edit_config(folder: Path, **changes: Any) -> None:
    """Change keys of config.json; None removes one."""
    file = folder / "config.json"
    config = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def edit_tensors(folder: Path, **changes: torch.Tensor | None) -> None:
    """Change tensors, whose names have ``__`` for a dot; None removes one."""
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in changes.items():
        tensors.pop(name.replace("__", "."), None)
        if tensor is not None:
            tensors[name.replace("__", ".")] = tensor
    save_file(tensors, folder / "model.safetensors")


# Family A: random weights.


def save_draft_model(folder: Path, **settings: Any) -> Path:
    """A small model with the target's tokenizer and nothing else of it."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, **settings}
    return save_random(folder, layers=1, seed=7, **sizes)


def save_blurred(model: Path, folder: Path, amount: float) -> Path:
    """The model with noise on its weights: as its own draft model it is right now and then."""
    shutil.copytree(model, folder)
    noise = torch.Generator().manual_seed(23)
    blurred = {
        name: tensor + amount * tensor.std() * torch.randn(tensor.shape, generator=noise)
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(blurred, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def save_random_eagle(folder: Path) -> Path:
    noise = _noise(11)
    tensors = {
        "fc.weight": noise(HIDDEN, 2 * HIDDEN),
        "embed_tokens.weight": noise(VOCABULARY, HIDDEN),
        **_random_layer("layers.0.", HIDDEN, noise),
    }
    return save(folder, {**LAYER_CONFIG, "architectures": ["LlamaForCausalLM"], "bias": False}, tensors)


def save_random_eagle3(folder: Path) -> Path:
    """The original form, with a draft vocabulary: ids below 100 are the target's, the others 64 less."""
    config = {**LAYER_CONFIG, "architectures": ["LlamaForCausalLM"], "draft_vocab_size": DRAFT_VOCABULARY}
    return save(folder, config, _random_eagle3("midlayer."))


def save_random_eagle3_speculators(folder: Path, **settings: Any) -> Path:
    """The speculators form of the same head, with an embedding of its own."""
    config = {
        "speculators_model_type": "eagle3",
        "architectures": ["Eagle3Speculator"],
        "speculators_version": "0.9.0",
        "draft_vocab_size": DRAFT_VOCABULARY,
        "target_hidden_size": HIDDEN,
        "eagle_aux_hidden_state_layer_ids": None,
        "norm_before_residual": False,
        "transformer_layer_config": LAYER_CONFIG,
        "speculators_config": {
            "algorithm": "eagle3",
            "verifier": {"name_or_path": "somewhere/else", "architectures": ["LlamaForCausalLM"]},
        },
        **settings,
    }
    tensors = _random_eagle3("layers.0.")
    tensors["embed_tokens.weight"] = _noise(13)(VOCABULARY, HIDDEN)
    return save(folder, config, tensors)


def save_random_medusa(folder: Path, *, heads: int = 3, layers: int = 1) -> Path:
    """The original form; its config names fewer heads than there are, as published ones do."""
    noise, tensors = _noise(17), {}
    for head in range(heads):
        for layer in range(layers):
            tensors[f"{head}.{layer}.linear.weight"] = noise(HIDDEN, HIDDEN)
            tensors[f"{head}.{layer}.linear.bias"] = noise(HIDDEN)
        tensors[f"{head}.{layers}.weight"] = noise(VOCABULARY, HIDDEN)
    return save(folder, {"medusa_num_heads": 2, "medusa_num_layers": layers}, tensors)


def in_blocks(medusa: Path, folder: Path, *, bias: bool = True) -> Path:
    """The same heads in the form that vLLM wrote, which may leave the bias of the blocks out."""
    tensors = {}
    for name, tensor in load_file(medusa / "model.safetensors").items():
        head, layer, *rest = name.split(".")
        if rest[0] == "weight":
            tensors[f"lm_heads.{head}.weight"] = tensor
        elif bias or rest[1] == "weight":
            tensors[f"blocks.{head}.layers.{layer}.{rest[1]}"] = tensor
    return save(folder, {"medusa_fc_bias": bias}, tensors)


def _noise(seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: 0.02 * torch.randn(shape, generator=generator)


def _random_layer(prefix: str, width: int, noise: Any) -> Tensors:
    shapes = {
        "self_attn.q_proj": (HEADS * HEAD_SIZE, width),
        "self_attn.k_proj": (KV_HEADS * HEAD_SIZE, width),
        "self_attn.v_proj": (KV_HEADS * HEAD_SIZE, width),
        "self_attn.o_proj": (HIDDEN, HEADS * HEAD_SIZE),
        "mlp.gate_proj": (FEED_FORWARD, HIDDEN),
        "mlp.up_proj": (FEED_FORWARD, HIDDEN),
        "mlp.down_proj": (HIDDEN, FEED_FORWARD),
    }
    tensors = {f"{prefix}{name}.weight": noise(*shape) for name, shape in shapes.items()}
    tensors[f"{prefix}post_attention_layernorm.weight"] = torch.ones(HIDDEN)
    return tensors


def _random_eagle3(prefix: str) -> Tensors:
    noise = _noise(13)
    ids = torch.arange(DRAFT_VOCABULARY)
    offsets = torch.where(ids < 100, 0, 64)
    kept = torch.zeros(VOCABULARY, dtype=torch.bool)
    kept[ids + offsets] = True
    return {
        "fc.weight": noise(HIDDEN, 3 * HIDDEN),
        **_random_layer(prefix, 2 * HIDDEN, noise),
        f"{prefix}input_layernorm.weight": torch.ones(HIDDEN),
        f"{prefix}hidden_norm.weight": torch.ones(HIDDEN),
        "norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": noise(DRAFT_VOCABULARY, HIDDEN),
        "d2t": offsets,
        "t2d": kept,
    }


# Family C: weights in closed form.


def cycle_target() -> Matrix:
    """Probability near 1 for the next token of `CYCLE`, a little for each other one."""
    matrix = cycle_matrix(CYCLE) + 1e-4
    normalised: Matrix = matrix / matrix.sum(axis=1, keepdims=True)
    return normalised


def save_cycle_target(folder: Path, *, head_size: int = 8) -> Path:
    return save_markov(folder, cycle_target(), layers=8, head_size=head_size)


def after(token: int, cycle: tuple[int, ...] = CYCLE) -> int:
    return cycle[(cycle.index(token) + 1) % len(cycle)]


def spoiled_tokens(share: float) -> frozenset[int]:
    """A share of the tokens, chosen at random: taken evenly they would lock to the step length."""
    return frozenset(np.random.default_rng(2).permutation(len(CYCLE))[: round(share * len(CYCLE))].tolist())


def accepted_by_arithmetic(first: int, length: int, depth: int, spoiled: Collection[int]) -> list[list[int]]:
    """Drafted and accepted at each position, when a draft is wrong exactly after a ``spoiled`` token.

    ``first`` is the token from the prompt's pass; ``length`` tokens are generated, that one included.
    """
    drafted, accepted = [0] * depth, [0] * depth
    token, done = first, 1
    while done < length:
        room = min(depth, length - done - 1)
        right = 0
        while right < room and token not in spoiled:
            token, right = after(token), right + 1
        for position in range(room):
            drafted[position] += 1
            accepted[position] += position < right
        # The target's own token follows the accepted ones.
        token, done = after(token), done + right + 1
    return [drafted, accepted]


def save_constructed_eagle(folder: Path, size: int, spoiled: Collection[int] = ()) -> Path:
    """An EAGLE-1 head whose distribution is that of any `save_markov` target of ``size`` tokens.

    After a spoiled token it is another token's.
    """
    wrong = (np.arange(size) + 1) % size
    look_up = torch.zeros(size, size)
    for token in range(size):
        look_up[wrong[token] if token in spoiled else token, token] = 1.0
    fc = torch.cat([look_up / (1 / size + EPS) ** 0.5, torch.zeros(size, size)], dim=1)
    tensors = {"fc.weight": fc, **_silent_layer("layers.0.", size, size)}
    return save(folder, {**_small_config(size), "bias": False}, tensors)


def save_constructed_eagle3(
    folder: Path,
    spoiled: Collection[int] = (),
    *,
    halved: bool = False,
    cycle: tuple[int, ...] = CYCLE,
    head_size: int = 8,
) -> Path:
    """An EAGLE-3 head that walks along ``cycle``; ``halved``: it knows the even tokens only, through d2t."""
    size = len(cycle)
    honest, walk = torch.zeros(size, size), torch.zeros(size, size)
    for token in range(size):
        following = after(token, cycle)
        honest[following, token] = 1.0
        walk[after(following, cycle) if token in spoiled else following, token] = 1.0
    scale = torch.tensor((1 / size + EPS) ** -0.5)
    layer = _silent_layer("midlayer.", size, 2 * size, head_size)
    layer["midlayer.mlp.gate_proj.weight"] = torch.eye(size)
    layer["midlayer.mlp.up_proj.weight"] = torch.eye(size)
    layer["midlayer.mlp.down_proj.weight"] = (walk - torch.eye(size)) / (
        scale * torch.nn.functional.silu(scale)
    )
    tensors = {
        **layer,
        "fc.weight": torch.cat([honest, torch.zeros(size, 2 * size)], dim=1),
        "midlayer.input_layernorm.weight": torch.ones(size),
        "midlayer.hidden_norm.weight": torch.ones(size),
        "norm.weight": torch.ones(size),
        "lm_head.weight": torch.eye(size),
    }
    config = {
        **_small_config(size, head_size),
        "architectures": ["LlamaForCausalLM"],
        "draft_vocab_size": size,
    }
    if halved:
        even = torch.arange(0, size, 2)
        tensors |= {"lm_head.weight": torch.eye(size)[even], "d2t": even - torch.arange(len(even))}
        config["draft_vocab_size"] = len(even)
    return save(folder, config, tensors)


def save_constructed_medusa(folder: Path, matrix: Matrix, *, heads: int = 4) -> Path:
    """Head k, counted from 1, looks up where the matrix leads in k + 1 steps.

    Its block is a random one; the linear after it is solved for, so that it leads there from what
    ``x + silu(W x + b)`` makes of the target's states, and from nothing else.
    """
    size, noise = len(matrix), np.random.default_rng(19)
    states = np.eye(size) * (1 / size + EPS) ** -0.5
    arrays = {}
    for head in range(heads):
        weight, bias = noise.normal(size=(size, size)) * 2.4 / size**0.5, noise.normal(size=size) * 1.5
        inner = states @ weight.T + bias
        further = np.log(np.linalg.matrix_power(matrix, head + 2))
        arrays[f"{head}.0.linear.weight"] = weight
        arrays[f"{head}.0.linear.bias"] = bias
        arrays[f"{head}.1.weight"] = np.linalg.solve(states + inner / (1 + np.exp(-inner)), further).T
    tensors = {name: torch.from_numpy(array).float() for name, array in arrays.items()}
    return save(folder, {"medusa_num_heads": heads, "medusa_num_layers": 1}, tensors)


def _small_config(size: int, head_size: int = 8) -> dict[str, Any]:
    return {
        **LAYER_CONFIG,
        "hidden_size": size,
        "vocab_size": size,
        "intermediate_size": size,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": head_size,
    }


def _silent_layer(prefix: str, size: int, width: int, head_size: int = 8) -> Tensors:
    """A layer that adds nothing to what goes through it."""
    shapes = {
        "self_attn.q_proj": (2 * head_size, width),
        "self_attn.k_proj": (head_size, width),
        "self_attn.v_proj": (head_size, width),
        "self_attn.o_proj": (size, 2 * head_size),
        "mlp.gate_proj": (size, size),
        "mlp.up_proj": (size, size),
        "mlp.down_proj": (size, size),
    }
    tensors = {f"{prefix}{name}.weight": torch.zeros(shape) for name, shape in shapes.items()}
    tensors[f"{prefix}post_attention_layernorm.weight"] = torch.ones(size)
    return tensors
