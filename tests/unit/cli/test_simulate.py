"""`specfleet simulate`: from a YAML to a table and a picture."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from specfleet.cli.comparison import remarks
from specfleet.cli.main import app
from specfleet.simulator.request import SimulationRequest, survival_of
from specfleet.simulator.summary import Summary

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLE = REPOSITORY / "examples" / "simulation" / "llama-70b.yaml"


def a_request(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    return body | changes


def test_a_70b_model_on_four_h100_has_the_times_of_the_worked_example() -> None:
    # design/tuning.md, section 5: m 14.4 ms, o 3.7 ms, c 59.5 us, c_kv 4.77e-8 s
    cost = SimulationRequest.model_validate(a_request()).cost()

    assert cost.memory == pytest.approx(14.4e-3, rel=0.02)
    assert cost.overhead == pytest.approx(3.7e-3, rel=0.02)
    assert cost.token == pytest.approx(59.5e-6, rel=0.02)
    assert cost.kv == pytest.approx(4.77e-8, rel=0.01)


def test_a_published_acceptance_length_becomes_the_survival_that_gives_it() -> None:
    survival = survival_of(2.70, 3)

    assert 1 + sum(survival[:3]) == pytest.approx(2.70)
    assert survival[1] == pytest.approx(survival[0] ** 2)


def test_the_example_gives_a_table_a_sentence_and_a_picture(tmp_path: Path) -> None:
    file, picture = tmp_path / "request.yaml", tmp_path / "run.png"
    file.write_text(yaml.safe_dump(a_request(traffic={"peak": 0.4, "shape": "steady", "hours": 0.25})))

    result = CliRunner().invoke(app, ["simulate", str(file), "--picture", str(picture)])

    assert result.exit_code == 0, result.output
    assert "no speculation" in result.output
    assert "specfleet changes their mean latency by -" in result.output
    assert "1 of 4: no speculation, 0.25 h" in result.stderr
    assert "had not ended" not in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_never_ended_is_said(tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    # Five times what the pod completes, for an hour: two hours later it has not caught up.
    file.write_text(yaml.safe_dump(a_request(traffic={"peak": 5.0, "shape": "steady", "hours": 1.0})))

    result = CliRunner().invoke(app, ["simulate", str(file)])

    assert result.exit_code == 0, result.output
    assert re.search(r"no speculation: requests that had not ended [^:]*: [1-9]", result.output)


@pytest.mark.parametrize(
    ("picture", "said"),
    [("run.pdf", "must end in .png or .svg"), ("none/run.png", "its folder does not exist")],
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_run(
    picture: str, said: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, ["simulate", str(EXAMPLE), "--picture", str(tmp_path / picture)])

    assert result.exit_code == 1
    assert result.output.strip() == f"--picture {tmp_path / picture}: {said}"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        pytest.param({"gpu": "Z9"}, "gpu must be one of", id="unknown-gpu"),
        pytest.param({"acceptance": {"profile": "magic"}}, "profile must be one of", id="unknown-profile"),
        pytest.param({"acceptance": {}}, "give one of profile", id="no-acceptance"),
        pytest.param(
            {"acceptance": {"tokensPerStep": 9.0}}, "not possible at depth 3", id="impossible-length"
        ),
        pytest.param(
            {"acceptance": {"perPosition": [1.2]}}, "survival lies in 0..1", id="survival-above-one"
        ),
        pytest.param({"acceptance": {"perPosition": []}}, "at least 1 item", id="no-position"),
        pytest.param(
            # 70e9 x 2 bytes are 130 GiB, 448,000 x 320 KiB are 137 GiB.
            {"gpusPerPod": 1},
            "weights of 130 GiB and a cache of kvTokens 448000 x model.kvBytesPerToken = 137 GiB "
            "do not fit into gpusPerPod 1 x 80 GiB of H100",
            id="too-large-for-its-gpus",
        ),
        pytest.param({"depth": {"initial": 6, "max": 5}}, "must not be above", id="initial-above-max"),
        pytest.param({"colour": "red"}, "colour", id="unknown-field"),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(
    changes: dict[str, Any], where: str, tmp_path: Path
) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(yaml.safe_dump(a_request(**changes)))

    result = CliRunner().invoke(app, ["simulate", str(file)])

    assert result.exit_code == 1
    assert where in result.output


def a_summary(**changes: int) -> Summary:
    figures = {"requests": 9, "unfinished": 0, "pushes": 0, "hard_offs": 0} | changes
    times = dict.fromkeys(("latency", "latency_p95", "first_token_p95", "token", "kept", "depth"), 1.0)
    return Summary(policy="ours", **figures, **times)  # type: ignore[arg-type]


def test_restarts_without_the_proposer_are_said() -> None:
    found = {"hard-off": a_summary(), "ours": a_summary(hard_offs=2)}

    assert list(remarks(2, found)) == [
        "specfleet: times that the pods were restarted without their proposer: 2."
    ]
