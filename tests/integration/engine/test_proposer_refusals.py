"""A proposer that was not read as a whole, or was not made for this target, is refused in words.

Each row is a trap that other loaders fall into without a word (checkpoints.md, section 9).
"""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.integration.engine.checkpoints import save_random
from tests.integration.engine.proposer_checkpoints import (
    HIDDEN,
    VOCABULARY,
    edit_config,
    edit_tensors,
    save_draft_model,
    save_random_eagle,
    save_random_eagle3,
    save_random_eagle3_speculators,
    save_random_medusa,
)

from specfleet_engine.errors import ModelRefused, ProposerRefused
from specfleet_engine.forward import TargetModel
from specfleet_engine.load import load_model, load_tokenizer
from specfleet_engine.proposers.chain import ChainProposer
from specfleet_engine.proposers.choose import load_proposer
from specfleet_engine.proposers.medusa import MedusaProposer


@pytest.fixture(scope="module")
def target(llama: Path) -> TargetModel:
    return load_model(llama, torch.float32)


def load(
    method: str, folder: Path, llama: Path, target: TargetModel, *, allow_pickle: bool = False
) -> ChainProposer | MedusaProposer:
    return load_proposer(method, folder, target, load_tokenizer(llama, target), allow_pickle=allow_pickle)


def as_ids(folder: Path) -> None:
    """Write d2t as target ids, as some loaders read it."""
    offsets = load_file(folder / "model.safetensors")["d2t"]
    edit_tensors(folder, d2t=torch.arange(len(offsets)) + offsets)


SAVERS: dict[str, Callable[[Path], Path]] = {
    "eagle": save_random_eagle,
    "eagle3": save_random_eagle3,
    "speculators": save_random_eagle3_speculators,
    "medusa": save_random_medusa,
}


@pytest.mark.fault("NVIDIA-NeMo/Automodel#2447", "sglang#27908")
@pytest.mark.parametrize(
    ("saved", "damage", "message"),
    [
        pytest.param("eagle", lambda f: (f / "config.json").unlink(), "no config.json in", id="no-config"),
        pytest.param(
            "eagle",
            lambda f: (f / "model.safetensors").unlink(),
            "it has neither .*safetensors nor .*bin nor .*pt",
            id="no-weights",
        ),
        pytest.param(
            "eagle",
            lambda f: (f / "model.safetensors").write_bytes(b"short"),
            "model.safetensors cannot be read",
            id="cut-weights",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_tensors(f, layers__0__mlp__up_proj__weight=None, extra__weight=torch.ones(2)),
            r"missing tensors: layers\.0\.mlp\.up_proj\.weight; left-over tensors: extra\.weight",
            id="missing-and-left-over",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_tensors(f, fc__weight=torch.ones(HIDDEN, 3 * HIDDEN)),
            r"wrong shapes: fc\.weight is \[128, 384\] and not \[128, 256\]",
            id="wrong-shape",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, bias=None),
            r"missing tensors: fc\.bias",
            id="a-missing-key-bias-means-true",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_tensors(f, fc__bias=torch.ones(HIDDEN)),
            r"left-over tensors: fc\.bias",
            id="a-bias-that-the-config-denies",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, hidden_size=64),
            "its hidden size is 64, the model's 128",
            id="another-hidden-size",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, vocab_size=500),
            "its vocabulary is 500, the model's 384",
            id="another-vocabulary",
        ),
        pytest.param("eagle", lambda f: edit_config(f, num_hidden_layers=2), "has 2 layers", id="two-layers"),
        pytest.param("eagle", lambda f: edit_config(f, hidden_act="gelu"), "uses gelu", id="activation"),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, rope_scaling={"type": "yarn", "factor": 4}),
            "rotary scaling 'yarn' is not served",
            id="rotary-scaling",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, num_attention_heads="four"),
            "num_attention_heads in .* must be a whole number above 0, got 'four'",
            id="not-a-number",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, rope_scaling={"rope_type": "llama3", "factor": 8.0}),
            "the rotary scaling of the head in .* lacks 'low_freq_factor'",
            id="half-a-rotary-scaling",
        ),
        pytest.param(
            "eagle",
            lambda f: edit_config(f, rms_norm_eps="small"),
            "rms_norm_eps in .* must be a number, got 'small'",
            id="not-a-small-number",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, eagle_aux_hidden_state_layer_ids=["2", "4", "5"]),
            "eagle_aux_hidden_state_layer_ids",
            id="layers-that-are-no-numbers",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, draft_vocab_size=400),
            "its draft vocabulary is 400, the model's 384",
            id="a-draft-vocabulary-beyond-the-models",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_tensors(f, d2t=None),
            "missing tensors: d2t",
            id="a-reduced-vocabulary-without-d2t",
        ),
        pytest.param("eagle3", as_ids, "d2t .* must hold offsets", id="d2t-as-ids"),
        pytest.param(
            "eagle3",
            lambda f: edit_tensors(f, d2t=torch.where(torch.arange(320) == 7, 1, 0)),
            "d2t .* leads two draft tokens to the same",
            id="d2t-twice-the-same",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_tensors(f, t2d=torch.arange(VOCABULARY) < 320),
            "d2t and t2d in .* name different tokens",
            id="d2t-against-t2d",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_tensors(f, lm_head__weight=None),
            r"missing tensors: lm_head\.weight",
            id="no-head-for-a-reduced-vocabulary",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, eagle_aux_hidden_state_layer_ids=[2, 2, 5]),
            r"3 different layers, and \(2, 2, 5\) are not that in a model of 8 layers",
            id="a-layer-twice",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, eagle_aux_hidden_state_layer_ids=[2, 5, 9]),
            "eagle_aux_hidden_state_layer_ids",
            id="a-layer-that-does-not-exist",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_config(f, norm_before_fc=True),
            r"missing tensors: input_norm\.weight",
            id="a-norm-without-its-tensor",
        ),
        pytest.param(
            "eagle3",
            lambda f: edit_tensors(f, fc_norm__0__weight=torch.ones(HIDDEN)),
            r"left-over tensors: fc_norm\.0\.weight",
            id="a-tensor-without-its-norm",
        ),
        pytest.param(
            "speculators",
            lambda f: edit_config(f, speculators_model_type="dflash"),
            "is a speculators 'dflash', which is not served",
            id="another-kind-of-speculators",
        ),
        pytest.param(
            "speculators",
            lambda f: edit_config(f, target_hidden_size=256),
            "its target hidden size is 256, the model's 128",
            id="made-for-a-wider-target",
        ),
        pytest.param(
            "speculators",
            lambda f: edit_config(
                f, speculators_config={"verifier": {"architectures": ["Qwen3ForCausalLM"]}}
            ),
            "was made for a Qwen3ForCausalLM, and the model is a LlamaForCausalLM",
            id="made-for-another-architecture",
        ),
        pytest.param(
            "medusa",
            lambda f: edit_tensors(f, **{"1__0__linear__bias": None}),
            r"missing tensors: 1\.0\.linear\.bias",
            id="medusa-without-a-bias",
        ),
        pytest.param(
            "medusa",
            lambda f: edit_tensors(f, **{"0__1__weight": torch.ones(500, HIDDEN)}),
            r"wrong shapes: 0\.1\.weight is \[500, 128\] and not \[384, 128\]",
            id="medusa-for-another-vocabulary",
        ),
    ],
)
def test_a_trap_is_a_refusal_in_one_line(
    llama: Path,
    target: TargetModel,
    tmp_path: Path,
    saved: str,
    damage: Callable[[Path], object],
    message: str,
) -> None:
    folder = SAVERS[saved](tmp_path / saved)
    damage(folder)

    with pytest.raises(ProposerRefused, match=message) as refusal:
        load("eagle3" if saved == "speculators" else saved, folder, llama, target)

    assert str(folder) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("saved", "asked", "message"),
    [
        ("eagle", "eagle3", "has an EAGLE-1 head, which method eagle serves, not method eagle3"),
        ("eagle3", "eagle", "has an EAGLE-3 head in its original form, which method eagle3 serves"),
        ("speculators", "medusa", "has an EAGLE-3 head in speculators form"),
        ("medusa", "eagle", "has Medusa heads in their original form, which method medusa serves"),
    ],
)
def test_the_tensors_say_which_method_serves_a_folder(
    llama: Path, target: TargetModel, tmp_path: Path, saved: str, asked: str, message: str
) -> None:
    with pytest.raises(ProposerRefused, match=message):
        load(asked, SAVERS[saved](tmp_path), llama, target)


def test_a_whole_model_is_no_head(llama: Path, target: TargetModel) -> None:
    with pytest.raises(ProposerRefused, match="has a causal language model, which method draftModel serves"):
        load("eagle", llama, llama, target)


def test_a_head_is_no_draft_model(llama: Path, target: TargetModel, tmp_path: Path) -> None:
    with pytest.raises(ProposerRefused, match=r"the draft model cannot be used: .*missing tensors"):
        load("draftModel", save_random_eagle(tmp_path), llama, target)


def test_tensors_that_nobody_knows_are_named(llama: Path, target: TargetModel, tmp_path: Path) -> None:
    folder = save_random_medusa(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    edit_tensors(folder, **dict.fromkeys(tensors), strange__weight=torch.ones(2))

    with pytest.raises(ProposerRefused, match=r"no known form: its tensors begin with strange\.weight"):
        load("eagle", folder, llama, target)


@pytest.mark.parametrize(("layers", "ids"), [(4, "2, 2, 1"), (5, "2, 2, 2"), (6, "2, 3, 3")])
def test_a_target_with_few_layers_is_refused_before_it_serves(tmp_path: Path, layers: int, ids: str) -> None:
    folder = save_random(tmp_path / "target", layers=layers)

    with pytest.raises(ProposerRefused, match=rf"\({ids}\) are not that in a model of {layers} layers"):
        load(
            "eagle3",
            save_random_eagle3(tmp_path / "head"),
            folder,
            load_model(folder, torch.float32),
        )


@pytest.mark.fault("vllm#7252")
def test_a_draft_model_with_another_tokenizer_is_refused_with_the_first_token_that_differs(
    llama: Path, target: TargetModel, tmp_path: Path
) -> None:
    folder = save_draft_model(tmp_path)
    file = folder / "tokenizer.json"
    # </s> is token 1 of both; the draft model now calls it something else.
    file.write_text(file.read_text().replace("</s>", "<end>"))
    config = folder / "tokenizer_config.json"
    config.write_text(config.read_text().replace("</s>", "<end>"))

    with pytest.raises(ProposerRefused, match="the token '</s>' is 1 in the model and unknown in the draft"):
        load("draftModel", folder, llama, target)


@pytest.mark.fault("llama.cpp#3812")
def test_a_draft_model_whose_table_ends_in_more_unused_rows_is_taken(
    llama: Path, target: TargetModel, tmp_path: Path
) -> None:
    folder = save_draft_model(tmp_path, vocab_size=448)

    assert load("draftModel", folder, llama, target).method == "draftModel"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "medusa_lm_head.pt"])
def test_a_pickle_is_read_only_if_that_is_allowed(
    llama: Path, target: TargetModel, tmp_path: Path, name: str
) -> None:
    folder = save_random_medusa(tmp_path)
    torch.save(load_file(folder / "model.safetensors"), folder / name)
    (folder / "model.safetensors").unlink()

    with pytest.raises(
        ProposerRefused, match=r"pickle .* convert it once with .* or start with --allow-pickle"
    ):
        load("medusa", folder, llama, target)
    assert load("medusa", folder, llama, target, allow_pickle=True).weight_bytes > 0


def test_a_pickle_that_wants_to_run_code_is_refused_even_so(
    llama: Path, target: TargetModel, tmp_path: Path
) -> None:
    folder = save_random_medusa(tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save({"0.0.linear.weight": Path("a")}, folder / "model.bin")

    with pytest.raises(ProposerRefused, match=r"model\.bin cannot be read: UnpicklingError"):
        load("medusa", folder, llama, target, allow_pickle=True)


def test_saved_rotary_tables_are_no_left_over(llama: Path, target: TargetModel, tmp_path: Path) -> None:
    folder = save_random_eagle(tmp_path)
    edit_tensors(folder, layers__0__self_attn__rotary_emb__inv_freq=torch.ones(16))

    assert load("eagle", folder, llama, target).method == "eagle"


@pytest.mark.fault("TorchSpec#38", "vllm-project/vllm-ascend#7038")
def test_an_embedding_that_is_not_the_models_is_said_in_the_log(
    llama: Path, target: TargetModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_random_eagle(tmp_path)

    with caplog.at_level(logging.WARNING):
        load("eagle", folder, llama, target)
        edit_tensors(folder, embed_tokens__weight=target.embed(torch.arange(VOCABULARY)))
        load("eagle", folder, llama, target)

    (record,) = caplog.records
    assert "is unrelated to the model's (mean cosine" in record.getMessage()


def test_heads_that_the_config_does_not_name_are_used_and_logged(
    llama: Path, target: TargetModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        load("medusa", save_random_medusa(tmp_path, heads=3), llama, target)

    assert "says medusa_num_heads 2, its tensors are for 3" in caplog.text


def test_a_missing_norm_before_residual_is_said_once(
    llama: Path, target: TargetModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_random_eagle3_speculators(tmp_path)
    edit_config(folder, norm_before_residual=None)

    with caplog.at_level(logging.INFO):
        load("eagle3", folder, llama, target)

    assert caplog.text.count("does not say norm_before_residual") == 1


def test_a_draft_model_is_read_onto_the_models_device(
    llama: Path, target: TargetModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[torch.device] = []

    def refuse(path: Path, dtype: torch.dtype, *, device: torch.device) -> TargetModel:
        asked.append(device)
        raise ModelRefused("read no further")

    monkeypatch.setattr("specfleet_engine.proposers.choose.load_model", refuse)
    monkeypatch.setattr(target, "device", torch.device("cuda"))

    with pytest.raises(ProposerRefused, match="read no further"):
        load("draftModel", save_draft_model(tmp_path), llama, target)

    assert asked == [torch.device("cuda")]
