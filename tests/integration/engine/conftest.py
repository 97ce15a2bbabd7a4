"""Checkpoints that several tests read; none of them changes one."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.integration.engine.checkpoints import save_random
from tests.integration.engine.proposer_checkpoints import (
    in_blocks,
    save_blurred,
    save_draft_model,
    save_random_eagle,
    save_random_eagle3,
    save_random_eagle3_speculators,
    save_random_medusa,
)

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Tiny models gain nothing from a second thread, and lose much when it has to wait for a core."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def proposers(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Path | None]]:
    """Method and folder of each kind of proposer for `llama`.

    All have random weights but `itself`, the target as its own draft model, and `blurred`, nearly that.
    """
    place = tmp_path_factory.mktemp("proposers")
    medusa = save_random_medusa(place / "medusa")
    return {
        "ngram": ("ngram", None),
        "itself": ("draftModel", llama),
        "blurred": ("draftModel", save_blurred(llama, place / "blurred", 0.05)),
        "draft-model": ("draftModel", save_draft_model(place / "draft")),
        "eagle": ("eagle", save_random_eagle(place / "eagle")),
        "eagle3": ("eagle3", save_random_eagle3(place / "eagle3")),
        "eagle3-speculators": ("eagle3", save_random_eagle3_speculators(place / "speculators")),
        "medusa": ("medusa", medusa),
        "medusa-in-blocks": ("medusa", in_blocks(medusa, place / "blocks")),
    }


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real small model, converted once for all runs; minutes the first time."""
    command = [sys.executable, str(REPOSITORY / "dev/models/smollm2.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(done.stdout.split()[-1])
