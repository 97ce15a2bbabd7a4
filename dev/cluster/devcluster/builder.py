"""Build the project's images with buildah, in a store of the cache folder, on a base by debootstrap."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from devcluster import packages
from devcluster.binaries import go_build, source_key
from devcluster.recipes import Recipe, reference, repository
from devcluster.settings import Settings
from devcluster.shell import run, say

BASE = "localhost/specfleet-base:bookworm"
DEBIAN = ("--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm")
# Made anew inside every container, or of use to apt alone.
NOT_IN_BASE = ("./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/*", "./var/lib/apt/lists/*")
PROMETHEUS = "github.com/prometheus/prometheus/cmd/prometheus"
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
# What of the host's pip configuration concerns the network.
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")


class Builder:
    """Buildah with its own store. Unchanged steps are taken from its cache."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.cache / "buildah"

    def _buildah(self, *arguments: str | Path, log: Path | None = None) -> str:
        # A mount namespace of its own: buildah leaves its store mounted onto itself.
        command: list[str | Path] = ["unshare", "--mount", "buildah", "--root", self._folder / "storage"]
        command += ["--runroot", self._folder / "run", "--storage-driver", "overlay", *arguments]
        scratch = self._folder / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        return run(command, environment={**os.environ, "TMPDIR": str(scratch)}, log=log)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one tool at a time build, in a store without what ended builds and older images left there.

        The steps of the images that have a name stay for the next build.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            packages.install(packages.IMAGE_PACKAGES)
            self._buildah("rm", "--all")
            self._buildah("rmi", "--prune")
            yield

    def build(self, recipe: Recipe) -> str:
        """Build one image; answer its reference."""
        self._provide_base()
        local = f"localhost/{repository(recipe.name)}:dev"
        with self._context(recipe) as (context, dockerfile), pip_secrets() as secrets:
            arguments: list[str | Path] = ["--layers", "--isolation", "chroot", "--network", "host"]
            arguments += ["--build-arg", f"BASE_IMAGE={BASE}", "--build-arg", "CPU_ONLY=yes", *secrets]
            if recipe.target:
                arguments += ["--target", recipe.target]
            if recipe.with_model:
                arguments += ["--build-context", f"smollm2={model(self._settings)}"]
            log = self._settings.cache / "logs" / f"build-{recipe.name}.log"
            self._buildah("bud", *arguments, "--file", dockerfile, "--tag", local, context, log=log)
        image_id = self._buildah("inspect", "--type", "image", "--format", "{{.FromImageID}}", local).strip()
        return reference(recipe.name, image_id)

    def push(self, recipe: Recipe, image: str, registry: str) -> None:
        """Copy the image to a registry; what that has already is skipped."""
        local = f"localhost/{repository(recipe.name)}:dev"
        # zstd: the torch layer takes 45 s, gzip several minutes.
        how = ["--quiet", "--tls-verify=false", "--compression-format", "zstd", "--compression-level", "1"]
        self._buildah("push", *how, local, f"docker://{registry}/{image}")

    def _provide_base(self) -> None:
        if BASE in self._buildah("images", "--format", "{{.Name}}:{{.Tag}}").split():
            return
        say("make the base image with debootstrap: a minute, once")
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            root, context = Path(scratch) / "root", Path(scratch) / "context"
            # In a mount namespace of its own: what it mounts into the root is gone, however it ends.
            command = ["unshare", "--mount", "debootstrap", *DEBIAN, root]
            run(command, log=self._settings.cache / "logs" / "debootstrap.log")
            context.mkdir()
            excluded = [f"--exclude={pattern}" for pattern in NOT_IN_BASE]
            run(["tar", "-C", root, *excluded, "-cf", context / "rootfs.tar", "."])
            dockerfile = self._settings.repository / "dev" / "images" / "base.Dockerfile"
            self._buildah(
                "bud", "--quiet", "--isolation", "chroot", "--file", dockerfile, "--tag", BASE, context
            )

    @contextmanager
    def _context(self, recipe: Recipe) -> Iterator[tuple[Path, Path]]:
        repository_folder = self._settings.repository
        if recipe.target:
            yield repository_folder, repository_folder / "Dockerfile"
            return
        program = self._prometheus()
        yield program.parent, repository_folder / "dev" / "images" / f"{recipe.name}.Dockerfile"

    def _prometheus(self) -> Path:
        """Provide the program from source: Debian's build cannot discover a Kubernetes' pods."""
        sources = self._settings.repository / "dev" / "images" / "prometheus"
        key = source_key([sources / name for name in ("go.mod", "go.sum")])
        program = self._settings.cache / "prometheus" / key / "prometheus"
        if not program.is_file():
            say("build Prometheus from source: a few minutes, once")
            program.parent.mkdir(parents=True, exist_ok=True)
            partial = program.with_suffix(f".{os.getpid()}")
            go_build(sources, PROMETHEUS, partial, tags="netgo,remove_all_sd,enable_kubernetes_sd")
            partial.rename(program)
        return program


def model(settings: Settings) -> Path:
    """Provide the small real model's folder. It is made once, which needs this Python to have torch."""
    script = settings.repository / "dev" / "models" / "smollm2.py"
    folder = settings.cache / "models" / "smollm2"
    run([sys.executable, script], log=settings.cache / "logs" / "model.log")
    return folder


@contextmanager
def pip_secrets() -> Iterator[Sequence[str]]:
    """Give pip inside a build the host's way to its package index: mounted for a step, stored nowhere."""
    found = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    lines = pip_settings(found.stdout)
    with tempfile.TemporaryDirectory() as folder:
        secrets: list[str] = []
        if CA_BUNDLE.is_file():
            lines.append("cert = /run/secrets/ca_bundle")
            secrets += ["--secret", f"id=ca_bundle,src={CA_BUNDLE}"]
        configuration = Path(folder) / "pip.conf"
        configuration.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
        yield [*secrets, "--secret", f"id=pip_conf,src={configuration}"]


def pip_settings(listing: str) -> list[str]:
    """Answer the lines of a pip.conf for what ``pip config list`` says about the network."""
    lines = []
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        if name in PIP_SETTINGS:
            lines.append(f"{name} = {value.strip(chr(39))}")
    return lines
