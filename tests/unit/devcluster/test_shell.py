"""Programs that the cluster tool runs: their words when they fail, time to clean up when it is stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from devcluster.errors import ClusterError
from devcluster.shell import run

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = "trap 'sleep 1; touch cleaned; exit 1' INT TERM; echo > started; while :; do sleep 0.05; done"
TOOL = f"""
import signal, sys
from devcluster.shell import run
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
# A shell's background job, as tests may be one, ignores SIGINT, and so would everything below it.
signal.signal(signal.SIGINT, signal.default_int_handler)
run(["sh", "-c", {PROGRAM!r}])
"""


def test_a_failure_is_told_with_its_status_and_last_words() -> None:
    with pytest.raises(ClusterError, match=r"failed with status 3:\nno such thing"):
        run(["sh", "-c", "echo no such thing >&2; exit 3"])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_program_cleans_up_when_the_tool_is_stopped(tmp_path: Path, how: signal.Signals) -> None:
    os.mkfifo(tmp_path / "started")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "dev" / "cluster")}
    with subprocess.Popen(
        [sys.executable, "-c", TOOL], cwd=tmp_path, env=environment, start_new_session=True
    ) as tool:
        (tmp_path / "started").read_text(encoding="utf-8")  # ends when the program has written

        # As a terminal does, or `kill -- -GROUP`.
        os.killpg(tool.pid, how)

    assert (tmp_path / "cleaned").exists()
