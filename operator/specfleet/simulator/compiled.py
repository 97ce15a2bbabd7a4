"""The one place that knows the compiler: in plain Python a simulated hour would take minutes.

Machine code is kept beside the bytecode, under a digest of the package's sources: numba itself looks only at
the file of the function, and would go on using a callee that has changed.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_PACKAGE = Path(__file__).parent


def _cache() -> Path:
    sources = b"".join(path.read_bytes() for path in sorted(_PACKAGE.glob("*.py")))
    folder = _PACKAGE / "__pycache__" / f"compiled-{hashlib.sha256(sources).hexdigest()[:16]}"
    for old in folder.parent.glob("compiled-*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return folder


_options: Any = numba.config  # its names are made at run time
if not _options.CACHE_DIR:
    _options.CACHE_DIR = str(_cache())


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function of numbers and arrays to machine code, kept on disk between processes."""
    return cast(Callable[Parameters, Result], numba.njit(cache=True, error_model="numpy")(function))
