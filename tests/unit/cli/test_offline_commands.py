"""`specfleet crds` and `specfleet validate`: what a user sees without a cluster."""

from pathlib import Path

import pytest
import yaml
from tests.unit.api.cases import VALID, Case, edited
from typer.testing import CliRunner

from specfleet.api.crd import FILE_NAME, crd
from specfleet.cli.main import app

RUNNER = CliRunner()


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A file with one valid resource."""
    file = tmp_path / "chat.yaml"
    file.write_text(VALID, encoding="utf-8")
    return file


def test_crds_prints_the_crd() -> None:
    result = RUNNER.invoke(app, ["crds"])

    assert (result.exit_code, yaml.safe_load(result.stdout)) == (0, crd())


def test_a_written_crd_passes_the_check(tmp_path: Path) -> None:
    RUNNER.invoke(app, ["crds", "--write", str(tmp_path)])

    assert RUNNER.invoke(app, ["crds", "--check", str(tmp_path)]).exit_code == 0


def test_a_stale_crd_fails_the_check_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("stale", encoding="utf-8")

    result = RUNNER.invoke(app, ["crds", "--check", str(tmp_path)])

    assert result.exit_code == 1
    assert "--write" in result.stderr


def test_a_valid_file_is_counted(written: Path) -> None:
    result = RUNNER.invoke(app, ["validate", str(written)])

    assert (result.exit_code, result.stdout) == (0, f"{written}: 1 valid\n")


def test_a_file_from_standard_input_is_read() -> None:
    assert RUNNER.invoke(app, ["validate", "-"], input=VALID).exit_code == 0


def test_every_problem_of_every_resource_is_told_with_its_name(written: Path) -> None:
    broken = edited(Case("").resource, {"metadata.name": "other", "spec.engine.type": "tgi", "extra": 1})
    written.write_text(f"{VALID}---\n{yaml.safe_dump(broken)}", encoding="utf-8")

    result = RUNNER.invoke(app, ["validate", str(written)])

    assert result.exit_code == 1
    assert [line.split(": ")[1:3] for line in result.stderr.splitlines()] == [
        ["other", "extra"],
        ["other", "spec.engine.type"],
    ]


def test_another_version_of_the_api_is_refused(written: Path) -> None:
    written.write_text(VALID.replace("v1alpha1", "v9"), encoding="utf-8")

    result = RUNNER.invoke(app, ["validate", str(written)])

    assert result.exit_code == 1
    assert "apiVersion: must be specfleet.dev/v1alpha1" in result.stderr


def test_objects_of_other_kinds_are_left_alone(written: Path) -> None:
    written.write_text(f"{VALID}---\nkind: ConfigMap\n", encoding="utf-8")

    assert RUNNER.invoke(app, ["validate", str(written)]).exit_code == 0


def test_a_list_is_looked_into(written: Path) -> None:
    resource = Case("").resource
    written.write_text(yaml.safe_dump({"kind": "List", "items": [resource, resource]}), encoding="utf-8")

    assert "2 valid" in RUNNER.invoke(app, ["validate", str(written)]).stdout


@pytest.mark.parametrize("text", ["kind: ConfigMap\n", ""])
def test_a_file_without_a_resource_is_an_error(written: Path, text: str) -> None:
    written.write_text(text, encoding="utf-8")

    assert RUNNER.invoke(app, ["validate", str(written)]).exit_code == 1


@pytest.mark.parametrize("text", ["a: [", "\x00"])
def test_what_is_no_yaml_is_an_error_with_the_place(written: Path, text: str) -> None:
    written.write_text(text, encoding="utf-8")

    result = RUNNER.invoke(app, ["validate", str(written)])

    assert result.exit_code == 1
    assert "cannot be read as YAML" in result.stderr


def test_a_missing_file_is_an_error() -> None:
    assert RUNNER.invoke(app, ["validate", "missing.yaml"]).exit_code == 1
