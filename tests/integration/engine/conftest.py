"""Checkpoints that several tests read; none of them changes one."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.integration.engine.checkpoints import save_random

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Tiny models gain nothing from a second thread, and lose much when it has to wait for a core."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real small model, converted once for all runs; minutes the first time."""
    command = [sys.executable, str(REPOSITORY / "dev/models/smollm2.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(done.stdout.split()[-1])
