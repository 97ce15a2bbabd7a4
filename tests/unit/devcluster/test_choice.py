"""Which cluster is used: a given one, else kind where it works, else the local one."""

from pathlib import Path

import pytest
from devcluster.choice import Choice, Kind, choose
from devcluster.errors import ClusterError


def no_engine() -> None:
    return None


def test_a_given_kubeconfig_wins_over_a_working_kind(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()

    chosen = choose({"SPECFLEET_KUBECONFIG": str(kubeconfig)}, lambda: "docker")

    assert chosen == Choice(Kind.GIVEN, kubeconfig=kubeconfig)


def test_a_given_kubeconfig_that_is_no_file_is_refused_and_nothing_else_is_tried() -> None:
    with pytest.raises(ClusterError, match="SPECFLEET_KUBECONFIG names /nowhere"):
        choose({"SPECFLEET_KUBECONFIG": "/nowhere"}, lambda: "docker")


def test_kind_is_used_with_the_engine_that_works() -> None:
    assert choose({}, lambda: "podman") == Choice(Kind.KIND, engine="podman")


def test_a_machine_without_kind_uses_the_local_cluster() -> None:
    assert choose({"SPECFLEET_KUBECONFIG": ""}, no_engine) == Choice(Kind.LOCAL)
