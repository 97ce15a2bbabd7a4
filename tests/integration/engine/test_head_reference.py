"""Heads with random weights against a plain forward without any cache.

The constructed EAGLE heads switch attention off, so only this sees a head's own KV: its positions, what a
draft step leaves behind, what is read again after a rejection, a preemption or a time at depth 0. Medusa
heads have no KV; here they have several blocks, with and without a bias. The reference is written from
checkpoints.md, sections 2, 4 and 5, with the rotary positions and hidden states of transformers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file
from tests.integration.engine.checkpoints import VOCABULARY
from tests.integration.engine.driving import drive, greedy
from tests.integration.engine.proposer_checkpoints import (
    EPS,
    HEAD_SIZE,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYER_CONFIG,
    edit_tensors,
    in_blocks,
    save_random_eagle,
    save_random_eagle3,
    save_random_eagle3_speculators,
    save_random_medusa,
)
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from specfleet_engine.cache import FeatureCache
from specfleet_engine.core import EngineCore
from specfleet_engine.load import load_model, load_tokenizer
from specfleet_engine.proposers.choose import load_proposer
from specfleet_engine.proposers.proposer import Draft, Proposer
from specfleet_engine.sequence import Sequence

Tensors = dict[str, torch.Tensor]


def norm(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(states, (states.shape[-1],), weight, EPS)


class PlainHead:
    """One layer over all places at once, with dense causal attention."""

    def __init__(self, tensors: Tensors, prefix: str, window: int = 10_000) -> None:
        self.window = window
        self.tensors = tensors
        self.prefix = prefix
        self.rotary = LlamaRotaryEmbedding(
            LlamaConfig(hidden_size=HIDDEN, num_attention_heads=HEADS, head_dim=HEAD_SIZE)
        )

    def attention(self, states: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            F.linear(states, self.tensors[f"{self.prefix}self_attn.{part}_proj.weight"])
            .view(1, len(states), -1, HEAD_SIZE)
            .transpose(1, 2)
            for part in "qkv"
        )
        query, key = apply_rotary_pos_emb(query, key, *self.rotary(query, torch.arange(len(states))[None]))
        key, value = (part.repeat_interleave(HEADS // KV_HEADS, dim=1) for part in (key, value))
        back = torch.arange(len(states))[:, None] - torch.arange(len(states))
        mask = (back >= 0) & (back < self.window)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return F.linear(
            seen[0].transpose(0, 1).flatten(1), self.tensors[f"{self.prefix}self_attn.o_proj.weight"]
        )

    def mlp(self, states: torch.Tensor) -> torch.Tensor:
        states = norm(states, self.tensors[f"{self.prefix}post_attention_layernorm.weight"])
        gate, up, down = (
            self.tensors[f"{self.prefix}mlp.{part}_proj.weight"] for part in ("gate", "up", "down")
        )
        return F.linear(F.silu(F.linear(states, gate)) * F.linear(states, up), down)


@dataclass
class Reference:
    """What a head drafts after ``tokens``, everything calculated anew for each draft."""

    model: Any
    tensors: Tensors
    settings: dict[str, int] = field(default_factory=dict)

    def drafts(self, tokens: list[int], depth: int) -> list[int]:
        if "fc.weight" not in self.tensors:
            guess = self._medusa
        else:
            guess = self._eagle3 if "d2t" in self.tensors else self._eagle
        with torch.inference_mode():
            hidden = self.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
            return guess(tokens, [states[0] for states in hidden], depth)

    def _eagle(self, tokens: list[int], hidden: list[torch.Tensor], depth: int) -> list[int]:
        head = PlainHead(self.tensors, "layers.0.")
        # hidden_states[-1] of transformers is the last one after the final norm.
        states, known = hidden[-1][:-1], list(tokens)
        for _ in range(depth):
            embedded = F.embedding(torch.tensor(known[1:]), self.tensors["embed_tokens.weight"])
            rows = F.linear(torch.cat([embedded, states], dim=-1), self.tensors["fc.weight"])
            rows = rows + head.attention(rows)
            rows = rows + head.mlp(rows)
            known.append(int(self.model.lm_head(rows[-1]).argmax()))
            states = torch.cat([states, rows[-1:]])
        return known[len(tokens) :]

    def _eagle3(self, tokens: list[int], hidden: list[torch.Tensor], depth: int) -> list[int]:
        prefix = "midlayer." if "midlayer.hidden_norm.weight" in self.tensors else "layers.0."
        head = PlainHead(self.tensors, prefix, self.settings.get("window", 10_000))
        table = self.tensors.get("embed_tokens.weight", self.model.model.embed_tokens.weight)
        states, known = self._joined(hidden)[:-1], list(tokens)
        for _ in range(depth):
            embedded = norm(
                F.embedding(torch.tensor(known[1:]), table), self.tensors[f"{prefix}input_layernorm.weight"]
            )
            normed = norm(states, self.tensors[f"{prefix}hidden_norm.weight"])
            kept = normed if self.settings.get("norm_before_residual") else states
            rows = kept + head.attention(torch.cat([embedded, normed], dim=-1))
            rows = rows + head.mlp(rows)
            last = norm(rows[-1:], self.tensors["norm.weight"])
            best = int(F.linear(last, self.tensors["lm_head.weight"]).argmax())
            known.append(best + int(self.tensors["d2t"][best]))
            states = torch.cat([states, last if self.settings.get("norm_output") else rows[-1:]])
        return known[len(tokens) :]

    def _medusa(self, tokens: list[int], hidden: list[torch.Tensor], depth: int) -> list[int]:
        # The last token was chosen from the state of the one before it.
        return [self._of_medusa_head(head, hidden[-1][len(tokens) - 2]) for head in range(depth)]

    def _of_medusa_head(self, head: int, state: torch.Tensor) -> int:
        original = f"{head}.0.linear.weight" in self.tensors
        block, layer = (f"{head}.%d.linear", 0) if original else (f"blocks.{head}.layers.%d", 0)
        while (weight := self.tensors.get(f"{block % layer}.weight")) is not None:
            inner = weight @ state
            if (bias := self.tensors.get(f"{block % layer}.bias")) is not None:
                inner = inner + bias
            state, layer = state + inner * torch.sigmoid(inner), layer + 1
        output = f"{head}.{layer}.weight" if original else f"lm_heads.{head}.weight"
        return int((self.tensors[output] @ state).argmax())

    def _joined(self, hidden: list[torch.Tensor]) -> torch.Tensor:
        parts = [hidden[2], hidden[4], hidden[5]]
        if self.settings.get("fc_norm"):
            parts = [norm(part, self.tensors[f"fc_norm.{i}.weight"]) for i, part in enumerate(parts)]
        joined = torch.cat(parts, dim=-1)
        if self.settings.get("norm_before_fc"):
            joined = norm(joined, self.tensors["input_norm.weight"])
        return F.linear(joined, self.tensors["fc.weight"])


@dataclass
class Watched:
    """A proposer that remembers what it was asked and what it said."""

    inner: Proposer
    said: list[tuple[list[int], int, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.method, self.needs = self.inner.method, self.inner.needs
        self.weight_bytes, self.bytes_per_token = self.inner.weight_bytes, self.inner.bytes_per_token
        self.draws, self.reach = self.inner.draws, self.inner.reach

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        self.inner.prepare(blocks, features)

    def observe(self, sequences: tuple[Sequence, ...]) -> None:
        self.inner.observe(sequences)

    def forget(self, sequence_id: str) -> None:
        self.inner.forget(sequence_id)

    def propose(self, sequences: tuple[Sequence, ...], depths: tuple[int, ...]) -> list[Draft]:
        drafts = self.inner.propose(sequences, depths)
        for sequence, depth, draft in zip(sequences, depths, drafts, strict=True):
            self.said.append((sequence.tokens.tolist(), depth, draft.tokens.tolist()))
        return drafts


def louder(folder: Path) -> Path:
    """Ten times the weights: attention and blocks then matter to what a head says."""
    tensors = load_file(folder / "model.safetensors")
    loud = {
        name.replace(".", "__"): 10 * tensor
        for name, tensor in tensors.items()
        if any(part in name for part in ("_proj", "fc.", ".linear.", "blocks."))
    }
    edit_tensors(folder, **loud)
    return folder


def with_norms(folder: Path, **settings: bool) -> Path:
    save_random_eagle3_speculators(folder, **settings)
    weights = torch.Generator().manual_seed(4)
    if settings.get("norm_before_fc"):
        edit_tensors(folder, input_norm__weight=torch.rand(3 * HIDDEN, generator=weights) + 0.5)
    if settings.get("fc_norm"):
        for place in range(3):
            scale = torch.rand(HIDDEN, generator=weights) + 0.5
            edit_tensors(folder, **{f"fc_norm__{place}__weight": scale})
    return folder


def with_window(folder: Path, window: int) -> Path:
    layer = {**LAYER_CONFIG, "layer_types": ["sliding_attention"], "sliding_window": window}
    return save_random_eagle3_speculators(folder, transformer_layer_config=layer)


def two_blocks(folder: Path, **settings: bool) -> Path:
    return in_blocks(save_random_medusa(folder / "original", layers=2), folder / "blocks", **settings)


CASES: list[Any] = [
    pytest.param("eagle", save_random_eagle, {}, id="eagle"),
    pytest.param("eagle3", save_random_eagle3, {}, id="eagle3-original"),
    pytest.param("eagle3", with_norms, {"norm_before_residual": True}, id="norm-before-residual"),
    pytest.param("eagle3", with_norms, {"norm_output": True, "fc_norm": True}, id="norm-output-and-each"),
    pytest.param("eagle3", with_norms, {"norm_before_fc": True}, id="norm-before-fc"),
    pytest.param("eagle3", with_window, {"window": 11}, id="sliding-window"),
    pytest.param("medusa", save_random_medusa, {}, id="medusa"),
    pytest.param("medusa", two_blocks, {"bias": True}, id="medusa-two-blocks"),
    pytest.param("medusa", two_blocks, {"bias": False}, id="medusa-two-blocks-without-bias"),
]


@pytest.mark.fault("llama.cpp#26478", "openvinotoolkit/openvino.genai#4190")
@pytest.mark.parametrize(("method", "saved", "settings"), CASES)
def test_every_draft_is_the_one_of_a_forward_without_a_cache(
    llama: Path, tmp_path: Path, method: str, saved: Callable[..., Path], settings: dict[str, int]
) -> None:
    folder = louder(saved(tmp_path, **settings))
    model = load_model(llama, torch.float32)
    watched = Watched(load_proposer(method, folder, model, load_tokenizer(llama, model)))
    # 2 MiB hold less than all four at their longest, so that somebody is preempted.
    core = EngineCore(model, watched, max_model_len=160, max_num_seqs=4, max_depth=4, kv_cache_mib=2)
    prompts = np.random.default_rng(8).integers(3, VOCABULARY, size=(4, 70)).tolist()

    run = drive(
        core,
        [greedy(f"r{n}", tokens[: 40 + 10 * n], 60) for n, tokens in enumerate(prompts)],
        lambda number: 0 if 20 <= number < 30 else 1 + number % 4,
    )

    reference = Reference(
        AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32),
        load_file(folder / "model.safetensors"),
        settings,
    )
    assert run.preempted > 0
    asked = watched.said[::5]
    assert sum(len(drafts) for _, _, drafts in asked) > 60
    assert len({token for _, _, drafts in asked for token in drafts}) > 20
    for tokens, _, drafts in asked:
        assert drafts == reference.drafts(tokens, len(drafts))
