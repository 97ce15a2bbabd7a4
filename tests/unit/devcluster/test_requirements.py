"""What a machine lacks for the local cluster is said before anything is built."""

import os
import platform
from pathlib import Path

import pytest
from devcluster import binaries, requirements
from devcluster.errors import ClusterError
from devcluster.settings import KUBERNETES_VERSION, Settings

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Nothing is built, and PATH has nothing but what a test writes."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", str(tmp_path))
    return Settings("one", tmp_path / "state", tmp_path / "cache" / "specfleet", REPOSITORY)


def write_go(settings: Settings, version: str) -> None:
    program = settings.state.parent / "go"
    program.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    program.chmod(0o755)


def test_a_machine_without_go_is_told_which_to_install(settings: Settings) -> None:
    with pytest.raises(ClusterError, match=r"Go is not on PATH.* install 1\.26"):
        requirements.check(settings)


def test_a_go_that_cannot_fetch_another_release_is_too_old(settings: Settings) -> None:
    # Debian 12's; fetching came with 1.21 (https://go.dev/doc/toolchain).
    write_go(settings, "go1.19.8")

    with pytest.raises(ClusterError, match=r"is go1\.19\.8, too old to build the Kubernetes programs"):
        requirements.check(settings)


@pytest.mark.parametrize("version", ["go1.21.0", "go1.26.8", "devel go1.27-1234"])
def test_a_go_that_fetches_what_it_needs_is_taken(settings: Settings, version: str) -> None:
    write_go(settings, version)

    requirements.check(settings)


def test_nothing_is_asked_of_go_where_the_programs_are_built(settings: Settings) -> None:
    key = binaries.source_key([binaries.seed(settings) / name for name in binaries.SOURCES])
    folder = settings.cache / "kube" / f"{KUBERNETES_VERSION}-{key}"
    folder.mkdir(parents=True)
    (folder / "kube").touch()

    requirements.check(settings)


def test_a_user_who_is_not_root_is_told_the_other_ways(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ClusterError, match=r"needs root; use kind or SPECFLEET_KUBECONFIG"):
        requirements.check(settings)


def test_another_architecture_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")

    with pytest.raises(ClusterError, match="is for x86-64, and this machine is aarch64"):
        requirements.check(settings)


def test_a_small_disk_is_told_before_images_are_built(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_go(settings, "go1.26.8")
    monkeypatch.setattr(requirements, "IMAGES_GB", 10**9)

    requirements.check(settings)

    assert "GB are free below" in capsys.readouterr().err
