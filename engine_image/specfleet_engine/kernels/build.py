"""Compiles `layer.cpp` and its headers; imports nothing of the engine, so that an image can.

`python build.py FOLDER` builds all of them there, for the images, which have no compiler. Elsewhere the
engine builds the one that it needs at its first start, in seconds, and keeps it in the cache of the user.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["LEVELS", "Unbuildable", "build", "library_name"]

SOURCE = Path(__file__).with_name("layer.cpp")
HEADERS = tuple(SOURCE.with_name(name) for name in ("attention.h", "products.h", "vectors.h"))

# Best first: compiler flags, and what a processor must have for them.
_AVX2 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"}
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "amx": (
        ("-march=x86-64-v4", "-mamx-tile", "-mamx-bf16"),
        frozenset(_AVX512 | {"amx_tile", "amx_bf16"}),
    ),
    "avx512": (("-march=x86-64-v4",), frozenset(_AVX512)),
    "avx2": (("-march=x86-64-v3",), frozenset(_AVX2)),
}
# Not -ffast-math: a NaN must stay visible, and its start-up code would change how the whole process rounds.
_FLAGS = ("-std=c++17", "-O3", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
_SECONDS = 120


class Unbuildable(Exception):
    """There is no compiler, or it failed. The text says which."""


def library_name(level: str) -> str:
    """Name the library of a level; the name changes with the sources and the flags."""
    sources = b"".join(file.read_bytes() for file in (SOURCE, *HEADERS))
    key = sources + " ".join((*_FLAGS, *LEVELS[level][0])).encode()
    return f"layer-{level}-{hashlib.sha256(key).hexdigest()[:12]}.so"


def build(level: str, folder: Path) -> Path:
    """Compile one level into ``folder``, unless it is there, and give the file. Raises Unbuildable."""
    wanted = folder / library_name(level)
    if wanted.exists():
        return wanted
    compiler = os.environ.get("CXX", "g++")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "layer.so"
            command = [compiler, *_FLAGS, *LEVELS[level][0], str(SOURCE), "-o", str(made)]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)  # noqa: S603
            # In one step: two engines may start at once.
            made.rename(wanted)
    except subprocess.CalledProcessError as error:
        raise Unbuildable(f"{compiler} failed: {error.stderr.strip()[-300:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unbuildable(f"{compiler}: {error}") from error
    return wanted


if __name__ == "__main__":
    for one in LEVELS:
        sys.stdout.write(f"{build(one, Path(sys.argv[1]))}\n")
