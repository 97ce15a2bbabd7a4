"""The whole engine as a process, on SmolLM2-135M-Instruct."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
from tests.integration.engine.driving import drive, generate, greedy

from specfleet_engine.__main__ import main
from specfleet_engine.core import EngineCore
from specfleet_engine.errors import ModelRefused
from specfleet_engine.load import load_model, load_tokenizer
from specfleet_engine.proposers.ngram import NgramProposer

# The first run on a machine converts the model.
pytestmark = pytest.mark.timeout(600)

CODE = """def area(width, height):
    return width * height

def volume(width, height, depth):
    return width * height * depth

def area(width, height):
    return width * height

def volume("""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_capital_of_france_is_paris(smollm2: Path, dtype: torch.dtype) -> None:
    model = load_model(smollm2, dtype, 256)
    tokenizer = load_tokenizer(smollm2, model)
    core = EngineCore(model, None, max_model_len=256, max_num_seqs=1, max_depth=0, kv_cache_mib=64)
    prompt = tokenizer.encode("The capital of France is")

    run = drive(core, [greedy("r", prompt, 2)], 0)

    assert prompt == [504, 3575, 282, 4649, 314]
    assert tokenizer.decode(run.texts["r"]) == " Paris."
    assert tokenizer.eos_ids == {2}


def test_three_chats_in_one_batch_get_the_text_of_transformers(smollm2: Path) -> None:
    model = load_model(smollm2, torch.float32, 256)
    tokenizer = load_tokenizer(smollm2, model)
    core = EngineCore(
        model, NgramProposer(2, 5), max_model_len=256, max_num_seqs=3, max_depth=4, kv_cache_mib=64
    )
    chats = {
        question: tokenizer.chat([{"role": "user", "content": question}])
        for question in ("Name three colours.", "Say hello hello hello hello.", "What is 2 + 2? Explain it.")
    }

    run = drive(core, [greedy(name, prompt, 24) for name, prompt in chats.items()], 4)

    assert run.accepted > 0
    assert run.texts == {name: generate(smollm2, prompt, 24) for name, prompt in chats.items()}


class Engine:
    """The engine's process and the schedule that it follows."""

    def __init__(self, model: Path, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.schedule = folder / "schedule.json"
        self.log = folder / "engine.log"
        self.push(version=1, depth=0)
        flags = {
            "--model": model,
            "--served-model-name": "smollm2",
            "--host": "127.0.0.1",
            "--port": port,
            "--schedule-file": self.schedule,
            "--max-depth": 4,
            "--method": "ngram",
            "--max-model-len": 512,
            "--max-num-seqs": 4,
            "--dtype": "float32",
            "--kv-cache-mib": 64,
        }
        command = [
            sys.executable,
            "-m",
            "specfleet_engine",
            *(str(p) for pair in flags.items() for p in pair),
        ]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stderr=log, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
            )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    def push(self, version: int, depth: int) -> None:
        table = {"format": 1, "version": version, "fence": 1, "issuedAt": "2026-01-01T00:00:00Z"}
        written = self.schedule.with_suffix(".new")
        written.write_text(json.dumps(table | {"maxDepth": 4, "table": [{"depth": depth}]}))
        written.rename(self.schedule)

    def wait_until(self, what: str, path: str, expected: str = "") -> None:
        """Ask until ``path`` answers 200 with ``expected`` in its text. Ends early if the process does."""
        for _ in range(300):
            try:
                answer = self.client.get(path)
                if answer.status_code == 200 and expected in answer.text:
                    return
            except httpx.TransportError:
                pass
            try:
                self.process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
            break
        pytest.fail(f"not {what}:\n{self.log.read_text()}")

    def complete(self, prompt: str, max_tokens: int) -> str:
        body = {"model": "smollm2", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        answer = self.client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["choices"][0]["text"]
        return text

    def metric(self, name: str, **labels: str) -> float:
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        for line in self.client.get("/metrics").text.splitlines():
            match = re.fullmatch(rf"{re.escape(name)}\{{(.*)\}} (\S+)", line)
            if match and wanted <= set(match[1].split(",")):
                return float(match[2])
        return 0.0


@pytest.fixture
def engine(smollm2: Path, tmp_path: Path) -> Iterator[Engine]:
    running = Engine(smollm2, tmp_path)
    try:
        running.wait_until("ready", "/ready")
        yield running
    finally:
        running.client.close()
        running.process.terminate()
        try:
            running.process.wait(timeout=30)
        finally:
            running.process.kill()
            running.process.wait()


def test_a_pushed_depth_gives_the_same_text_in_fewer_steps(engine: Engine) -> None:
    plain = engine.complete(CODE, 48)
    engine.push(version=2, depth=4)
    engine.wait_until("following the schedule", "/metrics", 'specfleet_schedule_version{fence="1"} 2.0')
    drafting = engine.complete(CODE, 48)

    assert drafting == plain
    steps = (
        engine.metric("specfleet_steps_total", depth="0"),
        engine.metric("specfleet_steps_total", depth="4"),
    )
    assert steps[0] == 47
    assert steps[1] <= 0.6 * steps[0]
    assert engine.metric("vllm:kv_cache_usage_perc") == 0.0
    engine.process.terminate()
    assert engine.process.wait(timeout=30) == 0


def test_a_model_that_cannot_be_served_ends_the_process_with_one_line_for_the_operator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    termination_log = tmp_path / "termination-log"
    termination_log.touch()

    status = main(["--model", "/nowhere", "--served-model-name", "m"], termination_log)

    assert status == 1
    line = "the model path /nowhere is not a directory in this container: check spec.model and its mount\n"
    assert termination_log.read_text() == f"specfleet_engine: {line}"
    assert [record.getMessage() + "\n" for record in caplog.records] == [line]


def test_no_termination_log_is_made_where_there_is_none(tmp_path: Path) -> None:
    main(["--model", "/nowhere", "--served-model-name", "m"], tmp_path / "termination-log")

    assert not (tmp_path / "termination-log").exists()


def test_the_main_thread_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pool of OpenMP threads would stay beside the step loop's and slow down every step."""
    loaded_in: list[str] = []

    def load(_: object) -> None:
        loaded_in.append(threading.current_thread().name)
        raise ModelRefused("enough")

    monkeypatch.setattr("specfleet_engine.__main__.load", load)

    main(["--model", "/nowhere", "--served-model-name", "m"])

    assert loaded_in != [threading.main_thread().name]
    assert loaded_in[0] not in [thread.name for thread in threading.enumerate()]
