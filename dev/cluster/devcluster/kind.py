"""A cluster by kind, where it and Docker are installed; Docker builds the images."""

from collections.abc import Sequence
from pathlib import Path

from devcluster.builder import model
from devcluster.recipes import Recipe, reference, repository
from devcluster.settings import Settings
from devcluster.shell import run, say

# The chart's Prometheus for clusters that can pull it; the local cluster builds its own instead. The nodes
# pull it themselves: Docker cannot hand over an image of several platforms (kubernetes-sigs/kind#3795).
PUBLIC_PROMETHEUS = "prom/prometheus:v3.5.0"


class KindCluster:
    """One kind cluster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.kubeconfig = settings.state / "kind.kubeconfig"

    def _kind(self, *arguments: str | Path) -> str:
        return run(["kind", *arguments, "--name", self._settings.name])

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
        built = {recipe.name: self._build(recipe) for recipe in recipes if recipe.target}
        if built:
            self._kind("load", "docker-image", *built.values())
        return built | {recipe.name: PUBLIC_PROMETHEUS for recipe in recipes if not recipe.target}

    def _build(self, recipe: Recipe) -> str:
        arguments = ["build", "--quiet", "--build-arg", "CPU_ONLY=yes", "--target", str(recipe.target)]
        if recipe.with_model:
            arguments += ["--build-context", f"smollm2={model(self._settings)}"]
        local = f"{repository(recipe.name)}:dev"
        log = self._settings.cache / "logs" / f"build-{recipe.name}.log"
        run(["docker", *arguments, "--tag", local, self._settings.repository], log=log)
        image_id = run(["docker", "image", "inspect", "--format", "{{.Id}}", local]).strip()
        image = reference(recipe.name, image_id)
        run(["docker", "tag", local, image])
        return image
