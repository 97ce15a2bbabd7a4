"""What else lies in folders of weights: a trainer's files, quantisation beside the config, names of GPT-2."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.integration.engine.checkpoints import VOCABULARY, save_random
from tests.integration.preflight.test_pairs import SAVERS, a_start, assert_says
from transformers import GPT2Config, GPT2LMHeadModel

from specfleet_preflight.pair import check


@pytest.mark.parametrize("left", ["training_args.bin", "optimizer.bin"])
def test_what_a_trainer_left_beside_pickled_weights_is_not_taken_for_weights(
    tmp_path: Path, left: str
) -> None:
    head = SAVERS["eagle3"][1](tmp_path / "head")
    torch.save(load_file(head / "model.safetensors"), head / "pytorch_model.bin")
    (head / "model.safetensors").unlink()
    torch.save({"learning_rate": 1e-4, "output": Path("a")}, head / left)
    # Engines read one kind of file only.
    torch.save({"state": [1, 2]}, head / "another.pt")

    assert check(save_random(tmp_path / "model"), head, a_start("eagle3")).fits


def test_a_folder_with_nothing_but_what_a_trainer_left_is_refused(tmp_path: Path) -> None:
    """Engines take the first of *.bin and *.pt that is there, and see too late that it is not theirs."""
    head = SAVERS["eagle3"][1](tmp_path / "head")
    torch.save(load_file(head / "model.safetensors"), head / "head.pt")
    (head / "model.safetensors").unlink()
    torch.save({"learning_rate": 1e-4}, head / "training_args.bin")

    verdict = check(save_random(tmp_path / "model"), head, a_start("eagle3"))

    assert_says(verdict.proposer, "training_args.bin .* name a copy without it")


@pytest.mark.parametrize(
    ("name", "document", "asked"),
    [
        ("hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}}, "modelopt"),
        ("hf_quant_config.json", {"quantization": {"quant_algo": "NVFP4"}}, "modelopt_fp4"),
        ("quantize_config.json", {"bits": 4, "group_size": 128, "desc_act": False}, "gptq_marlin"),
        ("quantize_config.json", {"bits": 4, "group_size": 128, "desc_act": True}, "gptq"),
        ("quant_config.json", {"w_bit": 4, "q_group_size": 128, "zero_point": True}, "awq"),
        ("config.json", {"quantization_config": {"quant_method": "gptq"}}, "auto_gptq"),
        ("config.json", {"quantization_config": {"quant_method": "gptq"}}, "moe_wna16"),
        ("config.json", {"quantization_config": {"quant_method": "compressed-tensors"}}, "w8a8_int8"),
        ("config.json", {"compression_config": {"quant_method": "compressed-tensors"}}, "compressed-tensors"),
    ],
)
def test_weights_may_be_asked_for_what_they_are_quantised_with_wherever_that_is_written(
    tmp_path: Path, name: str, document: dict[str, Any], asked: str
) -> None:
    model, head = save_random(tmp_path / "model"), SAVERS["eagle"][1](tmp_path / "head")
    config = json.loads((model / "config.json").read_text()) if name == "config.json" else {}
    (model / name).write_text(json.dumps(config | document))

    assert check(model, head, a_start("eagle", quantization=asked)).model == ()


def test_weights_whose_quantisation_lies_beside_the_config_are_not_taken_for_others(tmp_path: Path) -> None:
    model, head = save_random(tmp_path / "model"), SAVERS["eagle"][1](tmp_path / "head")
    (model / "quantize_config.json").write_text('{"bits": 4, "desc_act": false}')

    verdict = check(model, head, a_start("eagle", quantization="awq"))

    assert_says(verdict.model, "awq and the model's own gptq contradict each other")


def save_gpt2(folder: Path, positions: int = 512) -> Path:
    """The sizes of GPT-2 under its own names, as `transformers` writes them."""
    config = GPT2Config(
        n_layer=2, n_embd=64, n_head=4, n_positions=positions, vocab_size=VOCABULARY, bos_token_id=0
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def test_a_draft_model_of_the_gpt2_family_is_let_through(tmp_path: Path) -> None:
    model, draft = save_gpt2(tmp_path / "model"), save_gpt2(tmp_path / "draft")

    verdict = check(model, draft, a_start("draftModel", memory_bytes=1 << 30))

    assert (verdict.model, verdict.proposer) == ((), ())
    # Two layers, keys and values of 64 numbers, two bytes each.
    assert "KV cache 512 + 512 bytes a token" in verdict.plan


def test_the_positions_of_a_gpt2_draft_model_count(tmp_path: Path) -> None:
    model, draft = save_gpt2(tmp_path / "model"), save_gpt2(tmp_path / "draft", positions=256)

    assert_says(check(model, draft, a_start("draftModel")).proposer, "it reaches 256 positions")
