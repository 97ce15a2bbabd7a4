"""Pairs that cannot work are refused with what to change; those that work are let through.

Each row is a trap of checkpoints.md, section 9, or a rule of the released vLLM 0.32 and SGLang 0.5.23.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.integration.engine.checkpoints import VOCABULARY, save_random
from tests.integration.engine.proposer_checkpoints import (
    HIDDEN,
    edit_config,
    edit_tensors,
    in_blocks,
    save_draft_model,
    save_random_eagle,
    save_random_eagle3,
    save_random_eagle3_speculators,
    save_random_medusa,
)
from tests.integration.preflight.command import arguments
from tests.integration.preflight.headers import save_eagle3_of_llama_8b, save_llama_8b

from specfleet_preflight.__main__ import main
from specfleet_preflight.pair import Verdict, check
from specfleet_preflight.start import Start


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random(tmp_path_factory.mktemp("target"))


def a_draft_model(folder: Path) -> Path:
    return save_draft_model(folder)


def medusa_for_vllm(folder: Path) -> Path:
    """Three heads whose config says what vLLM needs to know."""
    save_random_medusa(folder)
    edit_config(folder, medusa_num_heads=3, hidden_size=HIDDEN)
    return folder


def reaching(save: Callable[[Path], Path], positions: int = 512) -> Callable[[Path], Path]:
    """Save a head that reaches as far as the engine is asked to."""

    def saved(folder: Path) -> Path:
        save(folder)
        config = json.loads((folder / "config.json").read_text())
        config.get("transformer_layer_config", config)["max_position_embeddings"] = positions
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    return saved


SAVERS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "draft": ("draftModel", a_draft_model),
    "eagle": ("eagle", reaching(save_random_eagle)),
    "eagle3": ("eagle3", reaching(save_random_eagle3)),
    "speculators": ("eagle3", reaching(save_random_eagle3_speculators)),
    "medusa": ("medusa", medusa_for_vllm),
}


def a_start(method: str, **changes: Any) -> Start:
    settings = {
        "engine": "vllm",
        "version": "0.32.0",
        "max_model_len": 512,
        "max_num_seqs": 8,
        "max_depth": 3,
    }
    return Start(method=method, **{**settings, **changes})


def rename_a_token(folder: Path) -> None:
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace("</s>", "<end>"))


def d2t_as_ids(folder: Path) -> None:
    offsets = load_file(folder / "model.safetensors")["d2t"]
    edit_tensors(folder, d2t=torch.arange(len(offsets)) + offsets)


def drop_a_shard(folder: Path) -> None:
    index = {"weight_map": {"fc.weight": "a.safetensors", "norm.weight": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def keep_gguf_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.gguf")


Damage = Callable[[Path], object]
NOTHING: Damage = lambda folder: None  # noqa: E731  stands in a table of lambdas


@pytest.mark.fault("vllm#7252", "NVIDIA-NeMo/Automodel#2447", "sglang#27908", "llama.cpp#3812")
@pytest.mark.parametrize(
    ("saved", "damage", "start", "message"),
    [
        pytest.param(
            "draft",
            rename_a_token,
            {},
            "another tokenizer.*'</s>' is 1 in the model and unknown in the proposer; name a draft model",
            id="tokenizer-content",
        ),
        pytest.param(
            "draft",
            lambda f: save_draft_model(f, vocab_size=448),
            {},
            r"has 448 rows and the model's 384; vLLM 0\.32\.0 refuses that.*pad the smaller table",
            id="draft-table-of-another-size",
        ),
        pytest.param(
            "draft",
            lambda f: edit_config(f, max_position_embeddings=256),
            {},
            "reaches 256 positions and engine.maxModelLen is 512.*lower engine.maxModelLen to 256",
            id="draft-model-with-fewer-positions",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, max_position_embeddings=64),
            {"engine": "sglang", "version": "0.5.23"},
            "reaches 64 positions.*SGLang does not start so: lower engine.maxModelLen to 64, or set SGLANG_",
            id="sglang-and-positions",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, max_position_embeddings=64),
            {},
            "one longer request makes all drafts .*or serve a copy of it .* max_position_embeddings 512",
            id="vllm-and-positions-of-a-head",
        ),
        pytest.param(
            "draft",
            lambda f: edit_config(f, num_hidden_layers=2),
            {},
            "config names 2 layers and its files hold 1",
            id="draft-model-that-lacks-a-layer",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, hidden_size=64),
            {},
            "hidden size is 64, the model's 128: name a proposer that was made for this model",
            id="hidden-size",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, vocab_size=300),
            {},
            "vocabulary is 300, the model's 384",
            id="vocabulary",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_tensors(f, layers__0__mlp__up_proj__weight=None, extra__weight=torch.ones(2)),
            {},
            r"missing tensors: layers\.0\.mlp\.up_proj\.weight.*left-over tensors: extra\.weight",
            id="missing-and-left-over-tensors",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_tensors(f, fc__bias=torch.ones(HIDDEN)),
            {},
            r"left-over tensors: fc\.bias",
            id="a-bias-that-vllm-does-not-know",
        ),
        pytest.param(
            "eagle",
            lambda f: (f / "model.safetensors").write_bytes(b"short"),
            {},
            "model.safetensors cannot be read .*fetch it again",
            id="cut-file",
        ),
        pytest.param(
            "eagle", drop_a_shard, {}, "lacks 1 tensors that its index names, norm.weight", id="shard"
        ),
        pytest.param("eagle", keep_gguf_only, {}, "has its weights as GGUF: name a repository", id="gguf"),
        pytest.param(
            "eagle", lambda f: (f / "config.json").unlink(), {}, "no config.json in", id="no-config"
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, eagle_aux_hidden_state_layer_ids=[2, 2, 5]),
            {},
            r"\(2, 2, 5\) are not that in a model of 8 layers: write the right ones",
            id="eagle3-layer-twice",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, eagle_aux_hidden_state_layer_ids=[2, 4, 8]),
            {},
            r"\(2, 4, 8\) are not that in a model of 8 layers",
            id="eagle3-layer-beyond",
        ),
        pytest.param("eagle3", lambda f: edit_tensors(f, d2t=None), {}, "missing tensors: d2t", id="no-d2t"),
        pytest.param("eagle3", d2t_as_ids, {}, "d2t leads outside the model's 384 ids", id="d2t-as-ids"),
        pytest.param(
            "eagle3",
            lambda f: edit_tensors(f, d2t=torch.where(torch.arange(320) == 7, 1, 0)),
            {},
            "d2t leads two of its tokens to the same id",
            id="d2t-twice-the-same",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_tensors(f, t2d=torch.arange(VOCABULARY) < 320),
            {},
            "d2t and t2d name different tokens",
            id="d2t-against-t2d",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_tensors(f, lm_head__weight=None),
            {},
            r"missing tensors: lm_head\.weight",
            id="reduced-vocabulary-without-a-head",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, draft_vocab_size=400),
            {},
            "draft vocabulary is 400, the model's 384",
            id="draft-vocabulary-beyond-the-models",
        ),
        pytest.param(
            "speculators",
            lambda f: edit_config(f, target_hidden_size=256),
            {},
            "target hidden size is 256, the model's 128",
            id="made-for-a-wider-model",
        ),
        pytest.param(
            "speculators",
            lambda f: edit_config(
                f, speculators_config={"verifier": {"architectures": ["Qwen3ForCausalLM"]}}
            ),
            {},
            "made for a Qwen3ForCausalLM, and the model is a LlamaForCausalLM",
            id="architecture",
        ),
        pytest.param(
            "speculators",
            lambda f: edit_config(f, speculators_model_type="dflash"),
            {},
            "a speculators 'dflash' head, which no method of specfleet serves",
            id="another-kind-of-speculators",
        ),
        pytest.param(
            "medusa",
            lambda f: edit_config(f, medusa_num_heads=5),
            {},
            "means 5 heads .*its file holds 3: write 3",
            id="medusa-heads-that-stay-random",
        ),
        pytest.param(
            "medusa",
            NOTHING,
            {"max_depth": 4},
            "depth.initial 4 needs as many heads and it has 3: lower it",
            id="medusa-depth",
        ),
        pytest.param(
            "medusa",
            lambda f: edit_config(f, hidden_size=None),
            {},
            r"no hidden_size, which vLLM 0\.32\.0 takes for 4096: write hidden_size 128",
            id="medusa-without-hidden-size",
        ),
        pytest.param(
            "medusa",
            lambda f: edit_tensors(f, **{"0__1__weight": torch.ones(500, HIDDEN)}),
            {},
            r"0\.1\.weight is \[500, 128\] and not \[384, 128\]",
            id="medusa-vocabulary",
        ),
        pytest.param(
            "medusa",
            NOTHING,
            {"version": "0.33.1"},
            r"vLLM 0\.33\.1 has no method medusa, which ended with 0\.32: write engine.version 0\.32\.0",
            id="method-against-version",
        ),
        pytest.param(
            "medusa",
            NOTHING,
            {"engine": "sglang", "version": "0.5.23"},
            "SGLang has no method medusa: use eagle",
            id="method-against-engine",
        ),
    ],
)
def test_a_bad_pair_is_refused_with_what_to_change(
    llama: Path, tmp_path: Path, saved: str, damage: Damage, start: dict[str, Any], message: str
) -> None:
    method, save = SAVERS[saved]
    folder = save(tmp_path / "proposer")
    damage(folder)

    verdict = check(llama, folder, a_start(method, **start))

    assert verdict.model == ()
    assert_says(verdict.proposer, message)


def assert_says(faults: Sequence[str], message: str) -> None:
    said = "; ".join(faults)
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("saved", "asked", "message"),
    [
        (
            "eagle",
            "eagle3",
            "it is an EAGLE-1 head: write method eagle, or name a proposer for method eagle3",
        ),
        ("eagle3", "eagle", "an EAGLE-3 head in its original form: write method eagle3"),
        ("speculators", "draftModel", "an EAGLE-3 head in speculators form: write method eagle3"),
        ("draft", "medusa", "a causal language model: write method draftModel"),
    ],
)
def test_the_tensors_say_which_method_serves_a_folder(
    llama: Path, tmp_path: Path, saved: str, asked: str, message: str
) -> None:
    verdict = check(llama, SAVERS[saved][1](tmp_path / "proposer"), a_start(asked))

    assert_says(verdict.proposer, message)


@pytest.mark.fault("vllm#18783")
@pytest.mark.parametrize(("layers", "ids"), [(4, "2, 2, 1"), (5, "2, 2, 2"), (6, "2, 3, 3")])
def test_a_model_with_few_layers_is_refused_before_it_serves(tmp_path: Path, layers: int, ids: str) -> None:
    model = save_random(tmp_path / "target", layers=layers)

    verdict = check(model, save_random_eagle3(tmp_path / "head"), a_start("eagle3"))

    assert_says(verdict.proposer, rf"\({ids}\) are not that in a model of {layers} layers")


@pytest.mark.fault("vllm-project/vllm-ascend#7038")
def test_a_head_without_an_embedding_over_a_rotated_model_is_noted(tmp_path: Path) -> None:
    model = tmp_path / "target"
    save_random(model)
    rotated = {"quant_method": "compressed-tensors", "transform_config": {"config_groups": {}}}
    edit_config(model, quantization_config=rotated)

    bare = check(model, SAVERS["eagle3"][1](tmp_path / "bare"), a_start("eagle3"))
    complete = check(model, SAVERS["speculators"][1](tmp_path / "own"), a_start("eagle3"))

    assert bare.fits and complete.fits
    assert "borrows the model's embedding, which quantisation may have rotated" in str(bare)
    assert complete.notes == ()


@pytest.mark.parametrize(
    ("change", "start", "message"),
    [
        pytest.param(
            {}, {"max_model_len": 2048}, "more than the model's 1024 positions: write 1024", id="length"
        ),
        pytest.param(
            {}, {"quantization": "awq"}, "awq needs weights that are stored so.*drop it", id="not-quantised"
        ),
        pytest.param(
            {"quantization_config": {"quant_method": "gptq"}},
            {"quantization": "awq"},
            "awq and the model's own gptq contradict each other: drop the field",
            id="quantised-otherwise",
        ),
        pytest.param(
            {"vocab_size": 512}, {}, "a vocabulary of 512 and its embedding has 384 rows", id="rows"
        ),
        pytest.param({"architectures": None}, {}, "names no architecture", id="no-architecture"),
        pytest.param({"hidden_size": "wide"}, {}, "hidden_size in .* must be a whole number", id="no-number"),
    ],
)
def test_a_model_that_cannot_be_served_is_told_from_its_proposer(
    tmp_path: Path, change: dict[str, Any], start: dict[str, Any], message: str
) -> None:
    model = save_random(tmp_path / "target")
    edit_config(model, **change)

    verdict = check(model, save_random_eagle(tmp_path / "head"), a_start("eagle", **start))

    assert_says(verdict.model, message)
    assert str(verdict).startswith("model: ")


@pytest.mark.parametrize("saved", SAVERS)
def test_a_pair_that_fits_is_let_through(llama: Path, tmp_path: Path, saved: str) -> None:
    method, save = SAVERS[saved]

    verdict = check(llama, save(tmp_path / "proposer"), a_start(method))

    assert (verdict.model, verdict.proposer) == ((), ())


def test_medusa_heads_in_vllms_form_are_let_through(llama: Path, tmp_path: Path) -> None:
    blocks = in_blocks(save_random_medusa(tmp_path / "original"), tmp_path / "blocks")
    edit_config(blocks, num_heads=3, hidden_size=HIDDEN)

    assert check(llama, blocks, a_start("medusa")).fits


@pytest.mark.fault("llama.cpp#3812")
def test_a_head_whose_table_ends_in_more_unused_rows_is_let_through(llama: Path, tmp_path: Path) -> None:
    head = SAVERS["eagle"][1](tmp_path / "head")
    edit_config(head, vocab_size=448)
    edit_tensors(head, embed_tokens__weight=torch.zeros(448, HIDDEN))

    assert check(llama, head, a_start("eagle")).fits


def test_sglang_goes_beyond_the_positions_where_its_environment_allows_it(
    llama: Path, tmp_path: Path
) -> None:
    start = a_start("eagle", engine="sglang", version="0.5.23", stretched=True)

    assert check(llama, save_random_eagle(tmp_path / "head"), start).fits


@pytest.mark.parametrize("name", ["pytorch_model.bin", "medusa_lm_head.pt"])
def test_a_pickle_file_is_read_without_torch_and_without_running_it(
    llama: Path, tmp_path: Path, name: str
) -> None:
    head = SAVERS["eagle3"][1](tmp_path / "head")
    tensors = load_file(head / "model.safetensors")
    (head / "model.safetensors").unlink()
    torch.save({key: torch.nn.Parameter(tensor, requires_grad=False) if key == "fc.weight" else tensor
                for key, tensor in tensors.items()}, head / name)  # fmt: skip
    assert check(llama, head, a_start("eagle3")).fits

    tensors["d2t"] = torch.arange(320) + tensors["d2t"]
    torch.save(tensors, head / name)
    assert_says(check(llama, head, a_start("eagle3")).proposer, "d2t leads outside")

    torch.save({"fc.weight": Path("a")}, head / name)
    assert_says(check(llama, head, a_start("eagle3")).proposer, "cannot be read .ValueError.")


# 8,030,261,248 parameters of two bytes; 32 layers x 2 x 8 heads x 128 x 2 bytes; one layer of the same.
LLAMA_BYTES, LLAMA_KV, HEAD_KV = 16_060_522_496, 131_072, 4_096


def an_8b(tmp_path: Path, **changes: Any) -> Verdict:
    settings = {"max_model_len": 8192, "max_num_seqs": 256, "max_depth": 5, **changes}
    model = save_llama_8b(tmp_path / "model")
    return check(model, save_eagle3_of_llama_8b(tmp_path / "head"), a_start("eagle3", **settings))


def test_the_plan_of_an_8b_model_on_an_80_gb_device(tmp_path: Path) -> None:
    verdict = an_8b(tmp_path, memory_bytes=80 << 30)

    head = 2 * (4096 * 8192 + 2 * 1024 * 8192 + 4096 * 4096 + 3 * 4096 * 14336 + 4096 * 12288 + 5 * 4096)
    tokens = int((0.9 * (80 << 30) - LLAMA_BYTES - head) / (LLAMA_KV + HEAD_KV))
    assert verdict.fits
    assert (
        f"weights {LLAMA_BYTES / 2**20:,.0f} MiB and {head / 2**20:,.0f} MiB of the proposer" in verdict.plan
    )
    assert "KV cache 131,072 + 4,096 bytes a token" in verdict.plan
    assert "lookahead 1280 tokens for 256 requests" in verdict.plan
    assert f"{tokens:,} tokens fit into 90% of 81,920 MiB, {tokens // 256:,} for each request" in verdict.plan


def test_two_devices_share_weights_and_kv(tmp_path: Path) -> None:
    verdict = an_8b(tmp_path, memory_bytes=80 << 30, tensor_parallel=2)

    assert f"weights {LLAMA_BYTES / 2**21:,.0f} MiB" in verdict.plan
    assert "KV cache 65,536 + 2,048 bytes a token" in verdict.plan


@pytest.mark.parametrize(
    ("shares", "weights", "kv"),
    [
        pytest.param({"pipeline_parallel": 2}, LLAMA_BYTES / 2, "65,536 + 2,048", id="stages"),
        pytest.param({"expert_parallel": 8}, LLAMA_BYTES, "131,072 + 4,096", id="experts-it-has-not"),
        pytest.param({"context_parallel": 2}, LLAMA_BYTES, "65,536 + 2,048", id="contexts"),
        pytest.param({"offloaded_bytes": 10 << 30}, LLAMA_BYTES - (10 << 30), "131,072", id="offloaded"),
    ],
)
def test_each_way_to_share_a_model_lightens_the_devices(
    tmp_path: Path, shares: dict[str, int], weights: float, kv: str
) -> None:
    verdict = an_8b(tmp_path, memory_bytes=80 << 30, **shares)

    assert f"weights {weights / 2**20:,.0f} MiB" in verdict.plan
    assert f"KV cache {kv}" in verdict.plan


def test_a_model_for_two_devices_is_not_refused_for_one(tmp_path: Path) -> None:
    """15.3 GiB of weights in two stages of a card with 12."""
    small = {"memory_bytes": 12 << 30, "max_num_seqs": 8}

    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()

    assert not an_8b(one, **small).fits
    assert an_8b(two, pipeline_parallel=2, **small).fits


def test_experts_are_spread_over_more_devices_than_the_layers_they_belong_to(tmp_path: Path) -> None:
    model, head = save_random(tmp_path / "model"), SAVERS["eagle"][1](tmp_path / "head")
    start = a_start("eagle", expert_parallel=8)
    before = weights_mib(check(model, head, start))
    edit_tensors(
        model,
        model__layers__0__mlp__experts__0__up_proj__weight=torch.zeros(8 << 10, 1 << 10),
        **{"model.layers.0.mlp.shared_experts.up_proj.weight": torch.zeros(1 << 10, 1 << 10)},
    )

    # 8 Mi elements of two bytes over 8 devices, and 1 Mi whole.
    assert weights_mib(check(model, head, start)) - before == pytest.approx(2 + 2, abs=1)


def weights_mib(verdict: Verdict) -> int:
    found = re.search("weights ([0-9,]+) MiB", verdict.plan)
    assert found is not None, str(verdict)
    return int(found[1].replace(",", ""))


@pytest.mark.fault("vllm#9995", "vllm#14067")
@pytest.mark.parametrize(
    ("memory", "changes", "part", "message"),
    [
        pytest.param(
            14 << 30,
            {},
            "model",
            "weights of 15,317 MiB do not fit into 14,336 MiB of a device: raise engine.tensorParallelSize",
            id="weights",
        ),
        pytest.param(
            LLAMA_BYTES + (300 << 20),
            {"max_model_len": 1024},
            "proposer",
            "weights of 15,877 MiB do not fit into 15,617 MiB of a device beside the model",
            id="weights-of-the-proposer",
        ),
        pytest.param(
            LLAMA_BYTES + LLAMA_KV * 8192,
            {},
            "proposer",
            "tokens of KV cache fit beside the model, .* 8,192 and 5 drafted ones: lower engine.maxModelLen",
            id="proposer-takes-the-last-room",
        ),
        pytest.param(
            LLAMA_BYTES + LLAMA_KV * 4096,
            {},
            "model",
            "4,096 tokens of KV cache fit, and one request may have 8,192: .*maxModelLen to 4,096",
            id="one-request",
        ),
        pytest.param(
            24 << 30,
            {"max_num_seqs": 4096, "max_depth": 16},
            "proposer",
            "4,096 requests with 16 drafted tokens each need more: lower engine.maxNumSeqs",
            id="lookahead",
        ),
    ],
)
def test_what_cannot_fit_is_refused_with_the_numbers(
    tmp_path: Path, memory: int, changes: dict[str, Any], part: str, message: str
) -> None:
    verdict = an_8b(tmp_path, memory_bytes=memory, **changes)

    assert_says(verdict.model if part == "model" else verdict.proposer, message)
    assert (verdict.proposer if part == "model" else verdict.model) == ()


@pytest.mark.fault("sglang#35275")
def test_the_plan_of_an_adaptive_sglang_counts_its_deepest_tier(tmp_path: Path) -> None:
    """Tiers share the tokens of one pool, so the deepest needs most of it."""
    sglang = {"engine": "sglang", "version": "0.5.23", "memory_bytes": 24 << 30, "max_num_seqs": 4096}

    (tmp_path / "1").mkdir()
    (tmp_path / "16").mkdir()
    shallow, deep = (an_8b(tmp_path / str(depth), **sglang, max_depth=depth) for depth in (1, 16))

    assert "lookahead 4096 tokens for 4096 requests" in shallow.plan
    assert_says(
        deep.proposer, "4,096 requests with 16 drafted tokens each need more: lower engine.maxNumSeqs"
    )


def test_without_a_known_memory_the_plan_is_printed_and_nothing_refused(tmp_path: Path) -> None:
    verdict = an_8b(tmp_path, max_num_seqs=4096)

    assert verdict.fits
    assert "fit into" not in verdict.plan


def command(llama: Path, head: Path, said: Path, *flags: str) -> int:
    said.write_text("")
    return main([*arguments(llama, head), *flags], said)


def test_the_verdict_is_the_termination_message_and_the_exit_status(llama: Path, tmp_path: Path) -> None:
    head, said = SAVERS["eagle"][1](tmp_path / "head"), tmp_path / "termination-log"

    assert command(llama, head, said) == 0
    assert said.read_text().startswith("specfleet_preflight: fits: weights ")

    edit_config(head, hidden_size=64)
    assert command(llama, head, said) == 1
    assert said.read_text().startswith("specfleet_preflight: proposer: its hidden size is 64")
    assert said.read_text().count("\n") == 1


def test_a_message_stays_within_what_kubernetes_keeps(llama: Path, tmp_path: Path) -> None:
    head, said = SAVERS["eagle"][1](tmp_path / "head"), tmp_path / "termination-log"
    edit_tensors(head, **{"x" * 3000 + str(number): torch.ones(1) for number in range(3)})

    assert command(llama, head, said) == 1
    assert len(said.read_bytes()) <= 4096


def test_neither_torch_nor_transformers_is_loaded() -> None:
    code = "import sys, specfleet_preflight.__main__; print({'torch', 'transformers'} & sys.modules.keys())"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "set()"
