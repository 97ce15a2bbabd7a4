"""`specfleet validate` on published measurements."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specfleet.cli.main import app

FILE = Path(__file__).parents[3] / "dev" / "evaluation" / "published.json"


def test_every_prediction_stands_beside_the_published_value(tmp_path: Path) -> None:
    out = tmp_path / "report.json"

    result = CliRunner().invoke(app, ["validate", str(FILE), "--json", str(out)])

    assert result.exit_code == 0
    assert "V2 7B, load 1: speed-up predicted (published) depth 1" in result.output
    assert "V4: not used: " in result.output
    report = json.loads(out.read_text())
    assert [figure["name"] for figure in report["figures"]] == [
        "sign of the best gain right",
        "best depth within one notch",
        "median error of the speed-up",
    ]
    assert len(report["predictions"]) == 6 + 3 + 3 + 4


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"schemaVersion": 2, "sets": []}, "schemaVersion 1"),
        ({"schemaVersion": 1, "sets": []}, "holds no set"),
    ],
    ids=["version", "empty"],
)
def test_a_file_that_cannot_be_predicted_is_an_error(
    document: dict[str, object], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "measurements.json"
    file.write_text(json.dumps(document))

    result = CliRunner().invoke(app, ["validate", str(file)])

    assert result.exit_code == 1
    assert said in result.output


def test_json_is_refused_for_resources(tmp_path: Path) -> None:
    file = tmp_path / "resource.yaml"
    file.write_text("kind: SpeculativeDeployment\n")

    result = CliRunner().invoke(app, ["validate", str(file), "--json", str(tmp_path / "out.json")])

    assert result.exit_code == 1
    assert "--json" in result.output


def test_a_report_into_a_folder_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    out = tmp_path / "none" / "out.json"

    result = CliRunner().invoke(app, ["validate", str(FILE), "--json", str(out)])

    assert result.exit_code == 1
    assert result.output.strip() == f"--json {out}: its folder does not exist"
