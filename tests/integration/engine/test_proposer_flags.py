"""The flags that name a proposer, and what the engine says about it when it starts."""

import logging
import re
from pathlib import Path

import pytest
from tests.integration.engine.proposer_checkpoints import (
    edit_config,
    edit_tensors,
    save_draft_model,
    save_random_eagle,
)

from specfleet_engine import __main__ as command
from specfleet_engine.__main__ import main
from specfleet_serving.arguments import Settings
from specfleet_serving.core import Core


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--method", "eagle"), "--method eagle needs --proposer"),
        (("--method", "ngram", "--proposer", "/head"), "--proposer is for .*, not for --method ngram"),
        (("--proposer", "/head"), "--proposer is for .*, not for --method none"),
        (("--method", "mtp"), "invalid choice: 'mtp'"),
    ],
)
def test_flags_that_contradict_each_other_end_the_program(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit):
        main(["--model", "/model", "--served-model-name", "m", *flags])

    assert re.search(message, capsys.readouterr().err)


@pytest.mark.fault("vllm#30436")
def test_several_pipeline_stages_are_refused_before_anything_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--model", "/model", "--served-model-name", "m", "--pipeline-parallel-size", "2"])

    assert "unrecognized arguments: --pipeline-parallel-size 2" in capsys.readouterr().err


def test_a_proposer_that_is_refused_ends_the_program_with_the_reason(llama: Path, tmp_path: Path) -> None:
    head, log = save_random_eagle(tmp_path / "head"), tmp_path / "termination-log"
    log.touch()
    edit_tensors(head, layers__0__mlp__up_proj__weight=None)
    flags = ["--model", llama, "--served-model-name", "m", "--method", "eagle", "--proposer", head]

    status = main([str(flag) for flag in [*flags, "--max-model-len", 128]], log)

    assert status == 1
    assert log.read_text() == (
        f"specfleet_engine: proposer: the proposer in {head} is not what its config.json says: "
        f"missing tensors: layers.0.mlp.up_proj.weight\n"
    )


def test_the_report_at_start_names_the_proposer_and_counts_its_memory(
    llama: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Core] = []

    def instead(core: Core, _: object, __: Settings) -> int:
        served.append(core)
        return 0

    monkeypatch.setattr(command, "serve", instead)
    draft = save_draft_model(tmp_path, hidden_size=256, intermediate_size=1024)
    flags = ["--model", llama, "--served-model-name", "m", "--method", "draftModel", "--proposer", draft]
    flags += ["--dtype", "float32", "--max-model-len", 512, "--max-depth", 3, "--kv-cache-mib", 9]

    with caplog.at_level(logging.INFO):
        status = main([str(flag) for flag in flags])

    assert status == 0
    assert served[0].limits.method == "draftModel"
    # Embedding and head 2 x 384 x 256, a layer of 256 x (2 x 128 + 2 x 64 + 3 x 1024), norms: 4.3 MB in fp32.
    # The KV takes 4,096 + 512 B a token, so 9 MiB hold 128 blocks of 16.
    assert f"method=draftModel proposer={draft} proposer_mib=4 " in caplog.text
    # A full step: 64 x 4 lines of 384 tokens, with 8 bytes of logits, 4 of three drafts' laws in four lines,
    # and 384 edits of 100 bytes on a copy of the line: 10.8 MiB.
    assert "kv_blocks=128 kv_tokens=2048 kv_mib=9 step_mib=10 " in caplog.text
    assert "drafts up to" not in caplog.text


def test_a_proposer_that_ends_before_the_longest_sequence_is_named_at_the_start(
    llama: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "serve", lambda *_: 0)
    head = save_random_eagle(tmp_path)
    edit_config(head, max_position_embeddings=100)
    flags = ["--model", llama, "--served-model-name", "m", "--method", "eagle", "--proposer", head]

    main([str(flag) for flag in [*flags, "--max-model-len", 512, "--max-depth", 3]])

    # Its position 99 is that of a sequence's 101st token.
    assert f"{head} drafts up to 101 tokens of a sequence, and sequences may have 512" in caplog.text
