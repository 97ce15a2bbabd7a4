"""Which cluster is used: a given one, else kind where it works, else the local one."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from devcluster.choice import Choice, Kind, choose, kind_works_here
from devcluster.errors import ClusterError


def works() -> bool:
    return True


def fails() -> bool:
    return False


def test_a_given_kubeconfig_wins_over_a_working_kind(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()

    chosen = choose({"SPECFLEET_KUBECONFIG": str(kubeconfig)}, works)

    assert chosen == Choice(Kind.GIVEN, kubeconfig=kubeconfig)


def test_a_given_kubeconfig_that_is_no_file_is_refused_and_nothing_else_is_tried() -> None:
    with pytest.raises(ClusterError, match="SPECFLEET_KUBECONFIG names /nowhere"):
        choose({"SPECFLEET_KUBECONFIG": "/nowhere"}, works)


def test_kind_is_used_where_it_works() -> None:
    assert choose({}, works) == Choice(Kind.KIND)


def test_a_machine_without_kind_uses_the_local_cluster() -> None:
    assert choose({"SPECFLEET_KUBECONFIG": ""}, fails) == Choice(Kind.LOCAL)


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        pytest.param({"kind": 0, "docker": 0}, True, id="kind-and-docker"),
        pytest.param({"kind": 0, "docker": 1}, False, id="docker-does-not-answer"),
        pytest.param({"kind": 0, "podman": 0}, False, id="podman-alone"),
        pytest.param({"docker": 0}, False, id="no-kind"),
    ],
)
def test_kind_works_with_a_docker_that_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Mapping[str, int], expected: bool
) -> None:
    for name, status in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert kind_works_here() is expected
