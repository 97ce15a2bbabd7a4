"""The chart as a whole: lint, its copy of the CRDs, and what it tells whoever installs it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rendering import CHART, REPOSITORY, Rendered, render, run_helm
from value_sets import NAMESPACED, OWN_PROMETHEUS, SECURED_SOURCE, VALUE_SETS

Chart = Callable[[str], Rendered]


@pytest.mark.parametrize("name", sorted(VALUE_SETS))
def test_helm_lint_has_no_complaint(name: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(VALUE_SETS[name]))

    outcome = run_helm("lint", "--strict", str(CHART), "--values", str(values))

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_charts_copy_of_the_crds_equals_their_source() -> None:
    source = {path.name: path.read_text() for path in (REPOSITORY / "crds").glob("*.yaml")}
    copy = {path.name: path.read_text() for path in (CHART / "files" / "crds").glob("*.yaml")}

    assert source
    assert copy == source, "run: specfleet crds --write charts/specfleet/files/crds"


def test_the_rendered_crd_is_the_source_and_is_kept_at_uninstall(chart: Chart) -> None:
    rendered = chart("defaults").one("CustomResourceDefinition", "speculativedeployments.specfleet.dev")
    (path,) = (REPOSITORY / "crds").glob("*.yaml")
    source = yaml.safe_load(path.read_text())

    assert rendered["spec"] == source["spec"]
    assert rendered["metadata"]["annotations"] == {
        **source["metadata"]["annotations"],
        "helm.sh/resource-policy": "keep",
    }
    assert "specfleet.dev/schema-hash" in rendered["metadata"]["annotations"]


def test_crds_can_be_left_to_somebody_else(tmp_path: Path) -> None:
    assert not render({"crds": {"install": False}}, tmp_path).all("CustomResourceDefinition")


def test_the_chart_holds_no_resource_of_its_own_kind(rendered: Rendered) -> None:
    assert not rendered.all("SpeculativeDeployment")


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        pytest.param({}, True, id="no-source"),
        pytest.param(OWN_PROMETHEUS, False, id="own-prometheus"),
        pytest.param(SECURED_SOURCE, False, id="default-source"),
        pytest.param({"metricsSources": {"main": {"url": "http://p"}}}, True, id="no-default-source"),
        pytest.param({**NAMESPACED, **OWN_PROMETHEUS}, False, id="namespaced"),
    ],
)
def test_the_notes_warn_where_nothing_could_be_tuned(
    values: dict[str, object], warned: bool, tmp_path: Path
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))

    outcome = run_helm(
        "install", "specfleet", str(CHART), "--dry-run=client", "--namespace", "x", "--values", str(file)
    )

    assert outcome.returncode == 0, outcome.stderr
    assert ("WARNING" in outcome.stdout) is warned
    assert "kubectl apply -f examples/" in outcome.stdout


def test_the_example_that_the_notes_name_exists() -> None:
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    named = [word for word in notes.split() if word.startswith("examples/") and word.endswith(".yaml")]

    assert named
    assert all((REPOSITORY / name).is_file() for name in named)
