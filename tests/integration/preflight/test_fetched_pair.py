"""What the one init container fetches is what the other one checks."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.integration.download.hub_server import COMMIT, Hub, serving
from tests.integration.engine.checkpoints import save_random
from tests.integration.engine.proposer_checkpoints import edit_config, save_random_eagle3

from specfleet_download import __main__ as download
from specfleet_preflight.pair import check
from specfleet_preflight.start import Start

START = Start("vllm", "0.32.0", "eagle3", max_model_len=512, max_num_seqs=8, max_depth=3)


def fetched(source: Path, into: Path, *flags: str) -> Path:
    """Publish a folder on a hub, and fetch it from there."""
    files = {path.name: path.read_bytes() for path in source.iterdir()}
    arguments = ["--repository", "org/model", "--revision", COMMIT, "--into", str(into), "--field", "model"]
    with serving(Hub(files)) as hub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.url)
        assert download.main([*arguments, *flags], into / "no-termination-log") == 0
    return into


def test_a_model_and_a_pickled_head_from_a_hub_are_fetched_whole_and_pass_the_check(tmp_path: Path) -> None:
    model = save_random(tmp_path / "model")
    head = save_random_eagle3(tmp_path / "head")
    edit_config(head, max_position_embeddings=512)
    torch.save(load_file(head / "model.safetensors"), head / "pytorch_model.bin")
    (head / "model.safetensors").unlink()

    pair = (
        fetched(model, tmp_path / "models" / "model" / COMMIT),
        fetched(head, tmp_path / "models" / "head" / COMMIT, "--pickled"),
    )

    assert check(*pair, START).fits
