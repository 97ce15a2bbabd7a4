"""Every way to compute a layer gives the numbers of transformers, on processors old and new."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.integration.engine.checkpoints import KINDS, VOCABULARY, save_random
from tests.integration.engine.driving import a_core, drive, generate, greedy
from transformers import AutoModelForCausalLM

from specfleet_engine.batch import Rows, build_batch
from specfleet_engine.forward import TargetModel
from specfleet_engine.kernels import native, replace
from specfleet_engine.kernels.build import LEVELS
from specfleet_engine.kernels.capability import cpu_flags
from specfleet_engine.load import load_model
from specfleet_engine.options import read_options
from specfleet_engine.sequence import Sequence
from specfleet_engine.start import load

# A processor that lacks a level's instructions runs the best one that it has.
PROCESSORS = [pytest.param(frozenset(), id="torch")]
PROCESSORS += [pytest.param(cpu_flags() & needed, id=name) for name, (_, needed) in LEVELS.items()]
# The compiled layers lack some biases: those models compute in torch.
COMPILED = [kind for kind in KINDS if not kind.endswith("-bias")]
PROMPTS = [
    tuple(np.random.default_rng(seed).integers(3, VOCABULARY, size=9 + 40 * seed)) for seed in range(3)
]


@pytest.fixture(params=PROCESSORS)
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> frozenset[str]:
    """Make the engine believe that it runs on such a processor."""
    flags: frozenset[str] = request.param
    monkeypatch.setattr(replace, "cpu_flags", lambda: flags)
    return flags


def logits_of(model: TargetModel, tokens: tuple[int, ...]) -> torch.Tensor:
    """Logits [tokens, vocabulary] of a whole prompt, read in one step."""
    cache = model.new_cache(16)
    sequence = Sequence(greedy("one", tokens, 1), 256)
    sequence.blocks = [5, 2, 11, 7, 3, 12, 1]
    rows = Rows(sequence, 0, np.array(tokens), drafts=len(tokens) - 1)
    with torch.inference_mode():
        batch = build_batch([rows], cache)
        return model.run(batch, batch.rows)


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("kind", KINDS)
def test_drafts_in_a_mixed_batch_get_the_text_of_transformers(tmp_path: Path, kind: str) -> None:
    folder = save_random(tmp_path / kind, kind, layers=4)

    run = drive(a_core(folder), [greedy(f"r{i}", PROMPTS[i], 24) for i in range(3)], 3)

    assert run.texts == {f"r{i}": generate(folder, PROMPTS[i], 24) for i in range(3)}


@pytest.mark.usefixtures("processor")
def test_bfloat16_logits_are_those_of_float32_up_to_the_rounding_of_bfloat16(llama: Path) -> None:
    exact = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.bfloat16).float()
    expected = exact(torch.tensor([PROMPTS[2]])).logits[0].detach()

    got = logits_of(load_model(llama, torch.bfloat16), PROMPTS[2])

    # Eight layers, each with a few roundings to 8 bits of what goes into a product.
    assert (got - expected).norm() / expected.norm() < 0.03


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["llama", "smollm2"])
def test_embeddings_are_those_of_the_file_also_where_the_head_is_the_same_table(
    tmp_path: Path, kind: str, dtype: torch.dtype
) -> None:
    folder = save_random(tmp_path, kind, layers=1)
    table = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    tokens = torch.arange(VOCABULARY).view(2, -1)

    got = load_model(folder, dtype).embed(tokens)

    assert torch.equal(got, table.to(dtype)[tokens])


@pytest.mark.parametrize("kind", COMPILED)
def test_no_page_of_the_file_stays_where_compiled_layers_hold_the_weights(tmp_path: Path, kind: str) -> None:
    folder = save_random(tmp_path, kind, layers=2)

    model = load_model(folder, torch.float32)

    if not model.kernel.startswith("native"):
        pytest.skip("no compiled layers on this machine")
    assert str(folder) not in Path("/proc/self/maps").read_text()


@pytest.mark.usefixtures("processor")
def test_a_nan_in_the_weights_reaches_the_logits(llama: Path) -> None:
    broken = AutoModelForCausalLM.from_pretrained(
        llama, dtype=torch.float32, attn_implementation="specfleet"
    ).requires_grad_(False)
    broken.model.layers[3].self_attn.q_proj.weight[5, 7] = float("nan")

    assert logits_of(TargetModel(broken), PROMPTS[0])[-1].isnan().all()


def test_the_log_says_which_kernels_are_used(
    llama: Path, processor: frozenset[str], caplog: pytest.LogCaptureFixture
) -> None:
    fitting = [f"native-{level}" for level, (_, needed) in LEVELS.items() if needed <= processor]
    # Linux may keep tiles from a process; the next best level is taken then.
    expected = {*fitting[:2]} if fitting[:1] == ["native-amx"] else {*fitting[:1]} or {"torch-lean"}
    options, _ = read_options(["--model", str(llama), "--served-model-name", "m", "--max-model-len", "64"])

    with caplog.at_level(logging.INFO, "specfleet_engine"):
        load(options)

    (line,) = (record.getMessage() for record in caplog.records if "loaded model=" in record.getMessage())
    (kernel,) = re.findall(r" kernel=(\S+) ", line)
    assert kernel in expected


def test_without_a_compiler_the_engine_says_so_and_computes_in_torch(
    llama: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "/no/such/compiler")
    monkeypatch.setattr(native, "_PREBUILT", tmp_path)
    monkeypatch.setattr(replace, "cpu_flags", lambda: LEVELS["avx2"][1])
    native.open_library.cache_clear()

    kernel = load_model(llama, torch.float32).kernel

    native.open_library.cache_clear()
    assert kernel == "torch-lean"
    assert "/no/such/compiler" in caplog.text
