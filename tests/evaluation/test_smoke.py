"""`make evaluate` on a small scale, from the command line to pictures, and again from what is on disk."""

import json
from pathlib import Path

import pytest
from dev.evaluation.__main__ import main
from dev.evaluation.seeds import DEVELOPMENT

ARGUMENTS = [
    *("--seeds", str(DEVELOPMENT), "--first", "1", "--hours", "0.5", "--day-hours", "0.25", "--jobs", "1"),
    *("--pools", "20"),
    *("--scenarios", "base-diurnal", "weak-light", "--policies", "oracle", "hard-off", "static-2", "ours"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("evaluation")
    main([*ARGUMENTS, "--out", str(out)])
    return out


def test_figures_have_the_common_form_and_the_cells_lie_beside_them(folder: Path) -> None:
    report = json.loads((folder / "tuner.json").read_text())

    for figure in report["figures"]:
        assert {"name", "value", "unit", "target", "met", "kind"} <= figure.keys()
        assert figure["kind"] in ("must", "stretch")
    assert len(report["cells"]) == 2 * 4
    assert [row["policy"] for row in report["table"]] == ["oracle", "hard-off", "static-2", "ours"]


def test_every_policy_serves_the_same_requests(folder: Path) -> None:
    cells = json.loads((folder / "tuner.json").read_text())["cells"]

    counts = {(cell["scenario"], cell["requests"]) for cell in cells}

    assert len(counts) == 2
    assert all(cell["requests"] > 1000 for cell in cells)


def test_the_oracle_is_its_own_measure(folder: Path) -> None:
    report = json.loads((folder / "tuner.json").read_text())

    assert report["table"][0]["e2e [se] / worst"].startswith("1.000")


def test_three_pictures_are_drawn(folder: Path) -> None:
    for name in ("regret.png", "disable.png", "day.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_a_second_run_takes_the_cells_from_disk_and_leaves_a_line_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = json.loads((folder / "tuner.json").read_text())
    monkeypatch.setattr("dev.evaluation.cells.simulate", None)

    main([*ARGUMENTS, "--out", str(folder)])

    assert json.loads((folder / "tuner.json").read_text())["cells"] == before["cells"]
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    assert all(line["seedsFile"] == "development.txt" and line["seeds"] == [101] for line in lines)


@pytest.mark.parametrize(
    "wrong", [["--scenarios", "nowhere"], ["--policies", "nobody"], ["--seeds", "/nonexistent"]], ids=str
)
def test_a_name_that_is_not_known_is_refused(wrong: list[str], tmp_path: Path) -> None:
    assert main([*wrong, "--out", str(tmp_path)]) == 2
    assert not list(tmp_path.iterdir())
