"""Tiny checkpoints, built in code (reference: checkpoints.md, section 6)."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY = 384

Matrix = npt.NDArray[np.float64]

# Every length is a multiple of 32, so that the compiled layer takes all that have no bias it lacks.
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "mistral": (MistralConfig, MistralForCausalLM, {"head_dim": 64}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 64, "tie_word_embeddings": True}),
    "llama-attention-bias": (LlamaConfig, LlamaForCausalLM, {"attention_bias": True}),
    "llama-mlp-bias": (LlamaConfig, LlamaForCausalLM, {"mlp_bias": True}),
    "qwen3-attention-bias": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 64, "attention_bias": True}),
    # Windows that begin in the middle of a block and end within what the tests read.
    "mistral-window": (MistralConfig, MistralForCausalLM, {"head_dim": 64, "sliding_window": 21}),
    "qwen2-window": (
        Qwen2Config,
        Qwen2ForCausalLM,
        {"use_sliding_window": True, "sliding_window": 37, "max_window_layers": 1},
    ),
    "qwen3-window": (
        Qwen3Config,
        Qwen3ForCausalLM,
        {"head_dim": 64, "use_sliding_window": True, "sliding_window": 2, "max_window_layers": 2},
    ),
    "smollm2": (
        LlamaConfig,
        LlamaForCausalLM,
        {
            "hidden_size": 288,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
        },
    ),
}
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "A schedule maps the number of requests to a depth.",
    "Grüße aus Köln: naïve café, 日本語 and 🙂.",
)


def save_random(
    folder: Path, kind: str = "llama", *, layers: int = 8, seed: int = 0, **settings: Any
) -> Path:
    """A model with random weights: no meaning, but every position and every KV entry matters."""
    config_class, model_class, own_settings = KINDS[kind]
    torch.manual_seed(seed)
    config = config_class(
        **{
            "hidden_size": 128,
            "vocab_size": VOCABULARY,
            "intermediate_size": 256,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "num_hidden_layers": layers,
            "max_position_embeddings": 1024,
            "tie_word_embeddings": False,
            "initializer_range": 0.08,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 2,
            "sliding_window": None,
            **own_settings,
            **settings,
        }
    )
    model = model_class(config)
    with torch.no_grad():
        # They begin as zeros and ones, which would hide that nobody adds or multiplies them.
        for name, weight in model.named_parameters():
            if name.endswith(("bias", "q_norm.weight", "k_norm.weight")):
                weight.add_(torch.randn_like(weight) * 0.3)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_tokenizer(folder: Path) -> None:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 20,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(SENTENCES, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = (
        "{% for m in messages %}"
        "{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('no role ' + m.role) }}{% endif %}"
        "<s>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<s>{% endif %}"
    )
    tokenizer.save_pretrained(folder)


def transition_matrix(size: int, seed: int) -> Matrix:
    """Probabilities [token, next], all above 0, none of them small."""
    weights = np.random.default_rng(seed).gamma(1.5, size=(size, size)) + 0.05
    matrix: Matrix = weights / weights.sum(axis=1, keepdims=True)
    return matrix


def cycle_matrix(cycle: tuple[int, ...]) -> Matrix:
    """Probability 1 for the next token of the cycle."""
    matrix = np.zeros((len(cycle), len(cycle)))
    matrix[list(cycle), [*cycle[1:], cycle[0]]] = 1.0
    return matrix


def save_markov(folder: Path, matrix: Matrix, *, layers: int = 1, head_size: int = 8) -> Path:
    """A Llama whose distribution after token t is ``matrix[t]``, whatever came before."""
    size = len(matrix)
    config = LlamaConfig(
        hidden_size=size,
        vocab_size=size,
        intermediate_size=8,
        num_attention_heads=2 if size % 2 == 0 else 1,
        num_key_value_heads=1,
        head_dim=head_size,
        num_hidden_layers=layers,
        max_position_embeddings=128,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(size))
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        scale = (1 / size + config.rms_norm_eps) ** 0.5
        model.lm_head.weight.copy_(torch.from_numpy(np.log(matrix).T * scale).float())
    model.save_pretrained(folder)
    return folder
