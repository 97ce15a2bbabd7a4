"""Runs helm on the chart, and gives what it renders as plain objects."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "specfleet"
NAMESPACE = "specfleet-system"


def helm() -> Path:
    """Find helm: the variable HELM, PATH, or what the development cluster's tool keeps in its cache."""
    if named := os.environ.get("HELM"):
        return Path(named)
    if found := shutil.which("helm"):
        return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "specfleet"
    for candidate in (cache / "bin" / "helm", *sorted(cache.glob("kube/*/helm"), reverse=True)):
        if candidate.exists():
            return candidate
    raise AssertionError(
        f"helm is neither in HELM, nor on PATH, nor below {cache}: run `make cluster` once, or install helm 4"
    )


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm, and leave the verdict to the caller."""
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, check=False)


class Rendered:
    """The objects of one `helm template`."""

    def __init__(self, text: str) -> None:
        self.objects: list[dict[str, Any]] = [body for body in yaml.safe_load_all(text) if body]

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [body for body in self.objects if body["kind"] == kind]

    def one(self, kind: str, name: str) -> dict[str, Any]:
        """Give the only object of that kind and name; anything else fails the test."""
        found = [body for body in self.all(kind) if body["metadata"]["name"] == name]
        assert len(found) == 1, f"{kind} {name}: {len(found)} found among {sorted(self.names(kind))}"
        return found[0]

    def names(self, kind: str) -> set[str]:
        return {body["metadata"]["name"] for body in self.all(kind)}

    def pod_specs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for body in self.all("Deployment"):
            yield body["metadata"]["name"], body["spec"]["template"]["spec"]

    def configuration(self) -> dict[str, Any]:
        """The operator's configuration file."""
        text = self.one("ConfigMap", "specfleet-operator")["data"]["config.yaml"]
        parsed: dict[str, Any] = yaml.safe_load(text)
        return parsed


def render(values: dict[str, Any] | None, folder: Path, *extra: str) -> Rendered:
    """Render the chart with some values. ``folder`` is where the values file may lie."""
    outcome = try_to_render(values, folder, *extra)
    assert outcome.returncode == 0, outcome.stderr
    return Rendered(outcome.stdout)


def try_to_render(
    values: dict[str, Any] | None, folder: Path, *extra: str
) -> subprocess.CompletedProcess[str]:
    """Render the chart with values that it may refuse."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values or {}))
    return run_helm(
        "template", "specfleet", str(CHART), "--namespace", NAMESPACE, "--values", str(file), *extra
    )
