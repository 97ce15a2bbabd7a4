"""What cannot be served is refused before it is served, in words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.integration.engine.checkpoints import save_random

from specfleet_engine import core as core_module
from specfleet_engine.core import EngineCore
from specfleet_engine.errors import DeviceMissing, KVCacheTooSmall, MemoryMissing, ModelRefused
from specfleet_engine.load import check_transformers_version, choose_device, load_model, load_tokenizer
from specfleet_engine.proposers.ngram import NgramProposer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_random(tmp_path / "model", layers=1)


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def edit_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})


def drop_down_proj(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.layers.0.mlp.down_proj.weight"]


def add_second_layer(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.1.mlp.down_proj.weight"] = torch.zeros(4, 4)


def shrink_norm(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.norm.weight"] = torch.ones(64)


def cut_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda f: (f / "config.json").unlink(), "no config.json in", id="no-config"),
        pytest.param(
            lambda f: (f / "config.json").write_text("{"), "cannot be read as JSON", id="broken-config"
        ),
        pytest.param(
            lambda f: (f / "config.json").write_text("[]"), "must hold a JSON object", id="config-is-a-list"
        ),
        pytest.param(
            lambda f: edit_config(f, architectures=["GPT2LMHeadModel"]),
            "is a GPT2LMHeadModel, which this engine does not serve: it serves LlamaForCausalLM",
            id="unsupported-architecture",
        ),
        pytest.param(lambda f: edit_config(f, architectures=None), "is a none", id="no-architecture"),
        pytest.param(
            lambda f: edit_config(f, quantization_config={"x": 1}), "quantised weights", id="quantised"
        ),
        pytest.param(
            lambda f: edit_tensors(f, drop_down_proj),
            "missing tensors: model.layers.0.mlp.down_proj.weight",
            id="missing-tensor",
        ),
        pytest.param(
            lambda f: edit_tensors(f, add_second_layer),
            "left-over tensors: model.layers.1.mlp.down_proj.weight",
            id="left-over-tensor",
        ),
        pytest.param(lambda f: edit_tensors(f, shrink_norm), "cannot be loaded", id="wrong-shape"),
        pytest.param(cut_weights, "cannot be loaded", id="cut-weights"),
        pytest.param(lambda f: (f / "model.safetensors").unlink(), "cannot be loaded", id="no-weights"),
    ],
)
def test_a_broken_model_is_refused_in_one_line(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)

    with pytest.raises(ModelRefused, match=message) as refusal:
        load_model(folder, torch.float32)

    assert str(folder) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="nowhere is not a directory"):
        load_model(tmp_path / "nowhere", torch.float32)


def test_a_length_beyond_the_positions_of_the_model_is_refused(folder: Path) -> None:
    with pytest.raises(ModelRefused, match="--max-model-len 1025 is more than the 1024 positions"):
        load_model(folder, torch.float32, 1025)


@pytest.mark.parametrize(
    ("name", "gpu", "device"),
    [("auto", False, "cpu"), ("auto", True, "cuda"), ("cpu", True, "cpu"), ("cuda", True, "cuda")],
)
def test_auto_takes_a_gpu_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, name: str, gpu: bool, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)

    assert choose_device(name).type == device


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(DeviceMissing, match="--device cuda, but torch finds no GPU"):
        choose_device("cuda")


@pytest.mark.parametrize("version", ["5.15.2", "5.25.0", "4.57.0", "6.0.0.dev0"])
def test_an_untested_transformers_is_refused(version: str) -> None:
    with pytest.raises(ModelRefused, match=r"transformers .* is installed, but .* 5\.16 to 5\.24"):
        check_transformers_version(version)


def test_a_model_without_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()

    with pytest.raises(ModelRefused, match=r"no tokenizer\.json"):
        load_tokenizer(folder, load_model(folder, torch.float32))


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    folder = save_random(tmp_path, layers=1, vocab_size=100)

    with pytest.raises(ModelRefused, match="do not belong together"):
        load_tokenizer(folder, load_model(folder, torch.float32))


def test_a_kv_cache_below_one_longest_sequence_is_refused_with_the_size_it_takes(tmp_path: Path) -> None:
    # 8 layers of 2 x 2 heads x 32 x 4 bytes: 4 KiB a token, 4 MiB for 1,024 tokens.
    model = load_model(save_random(tmp_path), torch.float32)

    with pytest.raises(KVCacheTooSmall, match=r"3 MiB holds 768 tokens.* give --kv-cache-mib 4 or more"):
        EngineCore(model, None, max_model_len=1024, max_num_seqs=2, max_depth=3, kv_cache_mib=3)


def test_the_kv_cache_is_not_larger_than_all_sequences_can_use(folder: Path) -> None:
    model = load_model(folder, torch.float32)

    core = EngineCore(model, None, max_model_len=100, max_num_seqs=3, max_depth=3, kv_cache_mib=64)

    assert core.limits.kv_tokens == 3 * 112


def test_memory_that_is_not_there_is_refused_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1 layer x 2 x 2 heads x 32 x 4 bytes a token, 3 x 112 tokens; 3 requests of 4 lines of 384 tokens, each
    # with 8 bytes of logits and 40 of what is sampled from them.
    needed = 3 * 112 * 512 + 3 * 4 * 384 * (8 + 40)
    model = load_model(folder, torch.float32)
    limits = {"max_model_len": 100, "max_num_seqs": 3, "max_depth": 3, "kv_cache_mib": 64}
    monkeypatch.setattr(core_module, "free_bytes", lambda _: needed)
    EngineCore(model, NgramProposer(2, 5), **limits)
    monkeypatch.setattr(core_module, "free_bytes", lambda _: needed - 1)

    with pytest.raises(MemoryMissing, match="give more memory, or lower --kv-cache-mib"):
        EngineCore(model, NgramProposer(2, 5), **limits)


def test_without_a_proposer_only_depth_zero_is_offered(folder: Path) -> None:
    core = EngineCore(
        load_model(folder, torch.float32),
        None,
        max_model_len=100,
        max_num_seqs=1,
        max_depth=3,
        kv_cache_mib=8,
    )

    assert (core.limits.method, core.limits.max_depth) == ("none", 0)


def test_the_ends_of_a_text_come_from_tokenizer_and_generation_config(folder: Path) -> None:
    file = folder / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": [7, 9]}))

    tokenizer = load_tokenizer(folder, load_model(folder, torch.float32))

    assert tokenizer.eos_ids == {1, 7, 9}


def test_text_comes_back_and_grows_by_its_prefixes(folder: Path) -> None:
    tokenizer = load_tokenizer(folder, load_model(folder, torch.float32))
    text = "Grüße, 日本 🙂 and the quick brown fox"
    ids = tokenizer.encode(text)

    assert tokenizer.decode(ids) == text
    for end in range(len(ids)):
        assert text.startswith(tokenizer.decode(ids[:end]).rstrip("\ufffd"))


def test_a_conversation_ends_where_the_assistant_begins(folder: Path) -> None:
    tokenizer = load_tokenizer(folder, load_model(folder, torch.float32))

    ids = tokenizer.chat([{"role": "user", "content": "fox"}])

    assert ids == [0, *tokenizer.encode("fox"), 1, 0]


def test_messages_that_the_template_refuses_are_a_value_error(folder: Path) -> None:
    tokenizer = load_tokenizer(folder, load_model(folder, torch.float32))

    with pytest.raises(ValueError, match="refuses these messages: no role wizard"):
        tokenizer.chat([{"role": "wizard", "content": "fox"}])
