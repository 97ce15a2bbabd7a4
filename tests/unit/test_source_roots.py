"""`operator` is a standard library module too: the source roots must stay plain folders."""

import operator
import sysconfig
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("root", ["operator", "engine_image"])
def test_a_source_root_holds_packages_and_no_module_of_its_own(root: str) -> None:
    modules = list((REPOSITORY / root).glob("*.py"))

    assert modules == []


def test_the_standard_library_keeps_its_operator_module() -> None:
    standard_library = Path(sysconfig.get_path("stdlib"))

    assert Path(str(operator.__file__)).parent == standard_library
