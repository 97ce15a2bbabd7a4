"""A cluster by kind, where it and a container engine are installed; images are built by that engine."""

import os
from collections.abc import Sequence
from pathlib import Path

from devcluster.builder import model
from devcluster.recipes import Recipe, reference, repository
from devcluster.settings import Settings
from devcluster.shell import run, say

# The chart's Prometheus for clusters that can pull it; the local cluster builds its own instead.
PUBLIC_PROMETHEUS = "prom/prometheus:v3.5.0"


class KindCluster:
    """One kind cluster; docker or podman is the engine."""

    def __init__(self, settings: Settings, engine: str) -> None:
        self._settings = settings
        self._engine = engine
        self.kubeconfig = settings.state / "kind.kubeconfig"

    def _kind(self, *arguments: str | Path) -> str:
        provider = {"KIND_EXPERIMENTAL_PROVIDER": self._engine}
        return run(
            ["kind", *arguments, "--name", self._settings.name], environment={**os.environ, **provider}
        )

    def exists(self) -> bool:
        """Say whether kind has this cluster."""
        return self._settings.name in run(["kind", "get", "clusters"]).split()

    def up(self) -> None:
        """Create the cluster unless it exists, and write its kubeconfig."""
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        if not self.exists():
            say(f"create kind cluster {self._settings.name}")
            self._kind("create", "cluster", "--wait", "120s", "--kubeconfig", self.kubeconfig)
        else:
            self._kind("export", "kubeconfig", "--kubeconfig", self.kubeconfig)

    def down(self) -> None:
        """Delete the cluster; nothing happens without one."""
        self._kind("delete", "cluster")
        self.kubeconfig.unlink(missing_ok=True)

    def provide(self, recipes: Sequence[Recipe]) -> dict[str, str]:
        """Build the images and load them into the cluster; answer their references."""
        references = {recipe.name: self._build(recipe) for recipe in recipes if recipe.target}
        references |= {
            recipe.name: self._public(PUBLIC_PROMETHEUS) for recipe in recipes if not recipe.target
        }
        self._kind("load", "docker-image", *references.values())
        return references

    def _public(self, image: str) -> str:
        run([self._engine, "pull", "--quiet", image])
        return image

    def _build(self, recipe: Recipe) -> str:
        arguments = ["build", "--quiet", "--build-arg", "CPU_ONLY=yes", "--target", str(recipe.target)]
        if recipe.with_model:
            arguments += ["--build-context", f"smollm2={model(self._settings)}"]
        local = f"{repository(recipe.name)}:dev"
        log = self._settings.cache / "logs" / f"build-{recipe.name}.log"
        run([self._engine, *arguments, "--tag", local, self._settings.repository], log=log)
        image_id = run([self._engine, "image", "inspect", "--format", "{{.Id}}", local]).strip()
        image = reference(recipe.name, image_id)
        run([self._engine, "tag", local, image])
        return image
