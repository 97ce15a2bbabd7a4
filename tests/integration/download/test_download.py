"""A repository of a model hub becomes a folder, or one sentence. Real client, local hub."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from huggingface_hub import constants
from tests.integration.download.hub_server import COMMIT, OLDER, Hub, serving

from specfleet_download import __main__ as command
from specfleet_download import hub as hub_module
from specfleet_download import store
from specfleet_download.store import COMPLETE

WEIGHTS = bytes(range(256)) * 40
FILES = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"pickled" * 400,
    "original/consolidated.00.pth": b"twice the same",
    "modeling_custom.py": b"print('code')",
    "README.md": b"# Model",
}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(dict(FILES))) as running:
        yield running


@pytest.fixture(autouse=True)
def no_environment_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


class Ended(NamedTuple):
    status: int
    message: str


def download(hub: Hub, into: Path, *flags: str, revision: str = COMMIT, token: str | None = None) -> Ended:
    """Run the command in this process, with a file for the termination message."""
    said = into.parent / "termination-log"
    said.parent.mkdir(parents=True, exist_ok=True)
    said.write_text("")
    arguments = ["--repository", "org/model", "--revision", revision, "--into", str(into), "--field", "model"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.url)
        if token is not None:
            patch.setenv("HF_TOKEN", token)
        status = command.main([*arguments, *flags], said)
    return Ended(status, said.read_text())


def test_config_tokenizer_and_safetensors_arrive_and_nothing_else(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "org--model" / COMMIT

    assert download(hub, folder) == (0, "")

    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        COMPLETE,
    }
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert [path.name for path in (folder.parent / ".fetching" / COMMIT).iterdir()] == ["lock"]


def test_the_shards_of_an_index_are_fetched(hub: Hub, tmp_path: Path) -> None:
    del hub.files["model.safetensors"]
    shards = {f"model-0000{number}-of-00002.safetensors": bytes([number]) * 2000 for number in (1, 2)}
    index = {"weight_map": {f"layers.{place}": name for place, name in enumerate(shards)}}
    hub.files |= {**shards, "model.safetensors.index.json": json.dumps(index).encode()}
    hub.files["consolidated.safetensors"] = b"the same weights again"

    assert download(hub, tmp_path / "m").status == 0

    tensors = {path.name: path.read_bytes() for path in (tmp_path / "m").glob("*.safetensors")}
    assert tensors == shards


def test_an_index_that_names_an_absent_shard_is_refused(hub: Hub, tmp_path: Path) -> None:
    del hub.files["model.safetensors"]
    hub.files["model.safetensors.index.json"] = b'{"weight_map": {"a": "model-00001-of-00001.safetensors"}}'

    assert (
        "names model-00001-of-00001.safetensors, which is not there" in download(hub, tmp_path / "m").message
    )


def test_pickled_weights_are_fetched_for_a_proposer_only(hub: Hub, tmp_path: Path) -> None:
    del hub.files["model.safetensors"]

    assert "has no weights in safetensors form" in download(hub, tmp_path / "model").message
    assert download(hub, tmp_path / "proposer", "--pickled").status == 0
    assert (tmp_path / "proposer" / "pytorch_model.bin").exists()


@pytest.mark.parametrize("revision", [COMMIT, COMMIT[:7], "main", "v1"])
def test_every_way_to_name_a_revision_ends_at_its_commit(hub: Hub, tmp_path: Path, revision: str) -> None:
    assert download(hub, tmp_path / "m", revision=revision).status == 0

    assert json.loads((tmp_path / "m" / COMPLETE).read_text())["commit"] == COMMIT
    tree = [path for _, path in hub.requests if "/tree/" in path]
    assert tree == [f"/api/models/org/model/tree/{COMMIT}"]


@pytest.mark.fault("kserve/kserve#3663")
def test_a_complete_folder_is_used_without_a_word_to_the_hub(hub: Hub, tmp_path: Path) -> None:
    download(hub, tmp_path / "m")
    hub.requests.clear()
    hub.status = 503

    assert download(hub, tmp_path / "m").status == 0
    assert hub.requests == []


def test_a_folder_that_lost_a_file_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    download(hub, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()

    assert download(hub, tmp_path / "m").status == 0
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == WEIGHTS


def test_a_transfer_that_breaks_goes_on_where_it_was(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.cut_once.add("model.safetensors")
    # The client keeps whole chunks only, of 10 MiB.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1024)

    assert download(hub, tmp_path / "m").status == 0
    assert hub.ranges == [f"bytes={len(WEIGHTS) // 2}-"]


SECRET = "hf_very_secret"


def test_a_token_opens_a_private_repository_and_is_nowhere_in_what_is_left(hub: Hub, tmp_path: Path) -> None:
    hub.needs_token = SECRET

    assert download(hub, tmp_path / "m", token=SECRET).status == 0
    assert hub.tokens_at_the_store == []
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("change", "revision", "token", "message"),
    [
        pytest.param(
            {"needs_token": SECRET},
            COMMIT,
            None,
            "name a Secret with a token in model.credentialsSecret",
            id="no-token",
        ),
        pytest.param(
            {"needs_token": SECRET},
            COMMIT,
            "hf_wrong",
            "the hub refuses the token .401.: see that the Secret of model.credentialsSecret",
            id="wrong-token",
        ),
        pytest.param({"gated": True}, COMMIT, SECRET, "is gated: accept its terms", id="gated"),
        pytest.param({"status": 403}, COMMIT, SECRET, "the hub refuses the token .403.", id="forbidden"),
        pytest.param({}, OLDER, None, f"has no revision {OLDER}: write a commit", id="no-such-commit"),
        pytest.param({}, "no-branch", None, "has no revision no-branch", id="no-such-branch"),
        pytest.param(
            {}, "abcdef0", None, "no commit abcdef0 .*write all 40 digits", id="no-such-short-commit"
        ),
        pytest.param(
            {"replaced": {"model.safetensors": WEIGHTS[:-1]}},
            COMMIT,
            None,
            "arrived with another size than the hub named",
            id="truncated",
        ),
        pytest.param(
            {"replaced": {"model.safetensors": WEIGHTS[::-1]}},
            COMMIT,
            None,
            "model.safetensors arrived with another content than the hub's hash says",
            id="another-content",
        ),
        pytest.param(
            {"replaced": {"config.json": FILES["config.json"].replace(b"Llama", b"Lxama")}},
            COMMIT,
            None,
            "config.json arrived with another content",
            id="another-small-file",
        ),
    ],
)
def test_a_fault_is_one_line_that_says_what_to_change(
    hub: Hub, tmp_path: Path, change: dict[str, Any], revision: str, token: str | None, message: str
) -> None:
    for name, value in change.items():
        setattr(hub, name, value)

    status, said = download(hub, tmp_path / "m", revision=revision, token=token)

    assert status == 1
    assert said.startswith("specfleet_download: hf://org/model")
    assert said.count("\n") == 1
    assert re.search(message, said), said
    assert len(said.encode()) <= 4096
    assert "127.0.0.1" not in said
    assert SECRET not in said
    assert not (tmp_path / "m").exists()


def test_another_repository_is_not_found(hub: Hub, tmp_path: Path) -> None:
    found = download(hub, tmp_path / "m", "--repository", "org/other")

    assert "hf://org/other: no such repository, or it is private: check model.uri" in found.message


def test_after_a_truncated_file_the_next_start_succeeds(hub: Hub, tmp_path: Path) -> None:
    hub.replaced["model.safetensors"] = WEIGHTS[::-1]
    assert download(hub, tmp_path / "m").status == 1
    hub.replaced.clear()

    assert download(hub, tmp_path / "m").status == 0
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == WEIGHTS


def test_a_hub_that_is_not_there_is_said(hub: Hub, tmp_path: Path) -> None:
    hub.url = "http://127.0.0.1:9"

    found = download(hub, tmp_path / "m", revision="main")

    assert "the hub cannot be reached: check modelHub.endpoint" in found.message


def test_too_little_room_is_said_before_the_first_byte(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage(tmp_path)._replace(free=5000)
    monkeypatch.setattr(store.shutil, "disk_usage", lambda path: full)

    found = download(hub, tmp_path / "m")

    assert "name a larger claim in model.cacheClaim" in found.message
    assert not any("/resolve/" in path for _, path in hub.requests)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the volume is full: give the node more ephemeral storage"),
        (errno.EDQUOT, "the volume is full"),
        (errno.EACCES, "the volume cannot be written"),
        (errno.EROFS, "the volume cannot be written"),
        (errno.ENOLCK, "the volume does not lock files"),
        (errno.EOPNOTSUPP, "the volume does not lock files"),
    ],
)
def test_what_the_volume_refuses_is_said(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    def refuse(*arguments: Any, **settings: Any) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(hub_module, "hf_hub_download", refuse)

    assert message in download(hub, tmp_path / "m").message


@pytest.mark.fault("kserve/kserve#3869")
def test_two_pods_at_once_fetch_once_and_both_find_it_complete(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "shared" / COMMIT
    ended: list[int] = []

    def pod(name: str) -> None:
        repository = hub_module.Repository("org/model", "model", endpoint=hub.url)
        store.fetch(repository, COMMIT, folder, pod=name, pickled=False)
        ended.append((folder / "model.safetensors").stat().st_size)

    pods = [threading.Thread(target=pod, args=(name,)) for name in ("pod-a", "pod-b")]
    for thread in pods:
        thread.start()
    for thread in pods:
        thread.join(timeout=20)

    assert ended == [len(WEIGHTS)] * 2
    assert len([path for method, path in hub.requests if method == "GET" and "/store/" in path]) == 1


# What the client itself says when it goes on without locks.
@pytest.mark.filterwarnings("ignore:flock not supported:UserWarning")
def test_without_locks_the_pod_that_is_second_keeps_the_first_ones_files(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*arguments: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    folder = tmp_path / "shared" / COMMIT
    repository = hub_module.Repository("org/model", "model", endpoint=hub.url)
    monkeypatch.setattr(store.fcntl, "flock", no_locks)
    publish = store._publish

    def a_pod_comes_first(staging: Path, into: Path, marker: dict[str, object]) -> None:
        monkeypatch.setattr(store, "_publish", publish)
        store.fetch(repository, COMMIT, folder, pod="pod-b", pickled=False)
        publish(staging, into, marker)

    monkeypatch.setattr(store, "_publish", a_pod_comes_first)

    assert store.fetch(repository, COMMIT, folder, pod="pod-a", pickled=False) == COMMIT
    assert list((folder.parent / ".fetching" / COMMIT).glob("by-*")) == []


def test_what_a_dead_pod_had_fetched_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "shared" / COMMIT
    hub.replaced["tokenizer.json"] = b"[]"
    repository = hub_module.Repository("org/model", "model", endpoint=hub.url)
    with pytest.raises(hub_module.CannotFetch):
        store.fetch(repository, COMMIT, folder, pod="dead", pickled=False)
    hub.replaced.clear()
    hub.requests.clear()

    store.fetch(repository, COMMIT, folder, pod="next", pickled=False)

    assert [path for method, path in hub.requests if method == "GET" and "/store/" in path] == []
    assert list((folder.parent / ".fetching" / COMMIT).glob("by-*")) == []


def test_the_command_reads_endpoint_and_token_from_the_environment(hub: Hub, tmp_path: Path) -> None:
    hub.needs_token = SECRET
    arguments = ["--repository", "org/model", "--revision", "main", "--into", str(tmp_path / "m")]

    ended = subprocess.run(
        [sys.executable, "-m", "specfleet_download", *arguments, "--field", "model"],
        env={**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": SECRET, "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert f"fetched hf://org/model at {COMMIT}" in ended.stderr
    assert SECRET not in ended.stderr
