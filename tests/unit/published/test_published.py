"""Published measurements: design/simulator.md, section 9, and the schema of the reference."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from specfleet.published import BadMeasurements, Prediction, figures, grids, predictions
from specfleet.published.score import sign_is_right, speedup_errors, within_one_notch

PUBLISHED = json.loads((Path(__file__).parents[3] / "dev" / "evaluation" / "published.json").read_text())


def a_document(*points: dict[str, Any]) -> dict[str, Any]:
    return {"schemaVersion": 1, "sets": [{"id": "X", "points": list(points)}]}


def a_point(depth: int, speed: float, batch: float = 1, **more: Any) -> dict[str, Any]:
    mode = "static" if depth else "off"
    return {"mode": mode, "depth": depth, "batch": batch, "throughputTokS": speed, **more}


def a_prediction(predicted: dict[int, float], published: dict[int, float]) -> Prediction:
    return Prediction("X", (1.0, 0.0), predicted, published, extrapolated=False)


def test_sets_without_two_whole_loads_are_named_and_not_used() -> None:
    found, unused = grids(PUBLISHED)

    assert [grid.name for grid in found] == ["V2 7B", "V3 Qwen2.5-7B", "V3 Mistral-7B", "V6"]
    reasons = {one.name: one.reason for one in unused}
    assert all("a speed-up without throughput" in reasons[name] for name in reasons if name.startswith("V14"))
    assert {one.name.split()[0] for one in unused} == {"V1", "V4", "V5", "V7", "V8", "V14", "V15"}


def test_a_set_that_repeats_another_is_not_counted_twice() -> None:
    one = [a_point(0, 10), a_point(1, 15), a_point(0, 20, 4), a_point(1, 22, 4)]
    both = {
        "schemaVersion": 1,
        "sets": [{"id": "A", "points": one}, {"id": "B", "points": [*one, a_point(2, 16)]}],
    }

    found, unused = grids(both)

    assert [grid.name for grid in found] == ["B"]
    assert unused[0].name == "A"


def test_acceptance_becomes_tokens_per_step() -> None:
    points = [a_point(0, 10), a_point(2, 15, acceptanceRate=0.8), a_point(0, 20, 4), a_point(2, 22, 4)]

    (grid,), _ = grids(a_document(*points))

    assert [point.tokens_per_step for point in grid.points] == [1.0, pytest.approx(2.6), 1.0, None]


@pytest.mark.parametrize(
    "document",
    [
        {"sets": []},
        {"schemaVersion": 1},
        {"schemaVersion": 1, "sets": [{"id": "X"}]},
        a_document({"mode": "off", "depth": 0, "batch": 1, "throughputTokS": -3}),
        a_document({"mode": "off", "depth": 0, "batch": 1, "throughputTokS": math.nan}),
        a_document({"mode": "off", "depth": 0, "batch": math.inf, "throughputTokS": 3}),
        a_document(a_point(1, 3, acceptanceRate=math.nan)),
        a_document(a_point(1, 3, contextTokens=math.nan)),
        a_document({"depth": 0}),
        {"schemaVersion": 1, "sets": ["x"]},
        {"schemaVersion": 1, "sets": [{"id": "X", "points": ["x"]}]},
        {"schemaVersion": 1, "sets": [{"id": 7, "points": [a_point(0, 3)]}]},
    ],
    ids=[
        *("no-version", "no-sets", "no-points", "negative-speed", "nan-speed", "endless-load"),
        "nan-acceptance",
        *("nan-context", "no-mode", "set-is-text", "point-is-text", "id-is-a-number"),
    ],
)
def test_a_file_out_of_the_schema_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(BadMeasurements):
        grids(document)


def test_a_machine_that_the_cost_model_describes_is_predicted_at_a_load_between_others() -> None:
    # T = ((10 ms)^4 + (0.2 ms x N)^4)^(1/4), + 0.5 ms a drafted token; two of three drafts are accepted.
    def speed(batch: int, depth: int) -> float:
        tokens = batch * (1 + depth)
        seconds = (0.010**4 + (0.0002 * tokens) ** 4) ** 0.25 + 0.0005 * depth
        return batch * (1 + depth * 2 / 3) / seconds

    points = [
        a_point(depth, speed(batch, depth), batch, **({"acceptanceRate": 2 / 3} if depth else {}))
        for batch in (1, 2, 4, 8, 12, 16, 24, 32)
        for depth in (0, 1, 2, 3)
    ]
    (grid,), _ = grids(a_document(*points))

    inside = [one for one in predictions(grid) if not one.extrapolated]

    assert len(inside) == 6
    for one in inside:
        assert max(speedup_errors(one)) < 0.08
        assert within_one_notch(one)
        assert sign_is_right(one)


def test_what_a_row_measured_itself_does_not_enter_its_prediction() -> None:
    (grid, *_), _ = grids(PUBLISHED)
    changed = json.loads(json.dumps(PUBLISHED))
    for point in changed["sets"][1]["points"]:
        if point["batch"] == 8 and point["depth"] == 2:
            point["throughputTokS"] *= 3
    (other, *_), _ = grids(changed)

    before, after = (next(one for one in predictions(g) if one.row == (8.0, 0.0)) for g in (grid, other))

    assert after.predicted == pytest.approx(before.predicted)
    assert after.published[2] == pytest.approx(3 * before.published[2])


@pytest.mark.fault("vllm#49163")
def test_a_tie_goes_to_the_smaller_depth() -> None:
    assert a_prediction({0: 1.0, 1: 1.200, 3: 1.205}, {0: 1.0, 1: 1.2, 3: 1.3}).predicted_depth == 1


@pytest.mark.parametrize(
    ("published", "right"),
    [
        pytest.param({0: 1.0, 1: 1.10}, True, id="pays"),
        pytest.param({0: 1.0, 1: 0.90}, False, id="does-not-pay"),
        pytest.param({0: 1.0, 1: 0.99}, True, id="within-the-noise"),
    ],
)
def test_the_sign_is_that_of_the_best_published_gain(published: dict[int, float], right: bool) -> None:
    assert sign_is_right(a_prediction({0: 1.0, 1: 1.2}, published)) is right


def test_notches_are_those_that_were_tried() -> None:
    assert within_one_notch(a_prediction({0: 1.0, 3: 2.0, 7: 1.0}, {0: 1.0, 3: 1.5, 7: 2.0}))
    assert not within_one_notch(a_prediction({0: 1.0, 3: 0.5, 7: 0.5}, {0: 1.0, 3: 1.5, 7: 2.0}))


def test_the_figures_are_shares_and_a_median() -> None:
    right = a_prediction({0: 1.0, 1: 1.2}, {0: 1.0, 1: 1.2})
    wrong = a_prediction({0: 1.0, 1: 1.2}, {0: 1.0, 1: 0.8})

    sign, notch, error = figures([right, right, wrong])

    assert (sign["value"], notch["value"], error["value"]) == (pytest.approx(2 / 3), 1.0, pytest.approx(0.0))
    assert (sign["met"], notch["met"], error["met"]) == (False, True, True)


def test_published_sets_are_predicted_no_worse_than_the_documentation_says() -> None:
    found, _ = grids(PUBLISHED)

    sign, notch, error = figures([one for grid in found for one in predictions(grid)])

    # docs/evaluation.md, "Published measurements".
    assert sign["value"] >= 0.93
    assert notch["value"] >= 0.85
    assert error["value"] <= 0.09
