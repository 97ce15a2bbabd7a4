"""Shapes of a torch pickle file, without torch and without running anything that it asks for.

Such a file is a zip archive: a pickle that builds tensors, and beside it one raw file for each storage. The
unpickler here knows a handful of names, which only note what is built; any other name is an error.
"""

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from specfleet_preflight.tensor import Tensor

__all__ = ["headers", "integers"]

_DTYPES = {
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "DoubleStorage": "F64",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "BoolStorage": "BOOL",
    "ByteStorage": "U8",
    "CharStorage": "I8",
}
_NUMPY = {"I64": np.int64, "I32": np.int32, "BOOL": np.bool_, "U8": np.uint8}


class _Storage(NamedTuple):
    dtype: str
    key: str


class _Built(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]


def headers(file: Path) -> Iterator[tuple[str, Tensor]]:
    """Give name and shape of every tensor. Raises ValueError for what is not a flat mapping of tensors."""
    for name, built in _read(file).items():
        yield name, Tensor(built.storage.dtype, built.shape, file)


def integers(file: Path, name: str) -> npt.NDArray[np.int64]:
    """Read one tensor of ids or flags. Raises ValueError."""
    built = _read(file)[name]
    with zipfile.ZipFile(file) as archive:
        raw = archive.read(f"{_root(archive)}/data/{built.storage.key}")
    if built.storage.dtype not in _NUMPY:
        raise ValueError(f"{name} holds {built.storage.dtype}, not ids")
    values: npt.NDArray[Any] = np.frombuffer(raw, dtype=_NUMPY[built.storage.dtype])
    return values[built.offset : built.offset + int(np.prod(built.shape))].astype(np.int64)


def _read(file: Path) -> dict[str, _Built]:
    try:
        with zipfile.ZipFile(file) as archive, archive.open(f"{_root(archive)}/data.pkl") as stream:
            found = _Unpickler(stream).load()
    except (zipfile.BadZipFile, KeyError, pickle.UnpicklingError, EOFError, TypeError, IndexError) as error:
        raise ValueError(f"{file} is no archive of plain tensors") from error
    if not isinstance(found, dict) or not all(isinstance(value, _Built) for value in found.values()):
        raise ValueError(f"{file} must hold a flat mapping of names to tensors")
    return {str(name): built for name, built in found.items()}


def _root(archive: zipfile.ZipFile) -> str:
    return archive.namelist()[0].split("/")[0]


def _build(storage: _Storage, offset: int, shape: tuple[int, ...], *_: object) -> _Built:
    return _Built(storage, offset, tuple(shape))


def _parameter(built: _Built, *_: object) -> _Built:
    return built


class _Unpickler(pickle.Unpickler):
    _names: ClassVar[dict[tuple[str, str], Any]] = {
        ("collections", "OrderedDict"): OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): _build,
        ("torch._utils", "_rebuild_parameter"): _parameter,
    }

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if (module, name) in self._names:
            return self._names[module, name]
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a plain tensor")

    def persistent_load(self, pid: Any) -> _Storage:
        # ("storage", type, key, device, number of elements)
        return _Storage(pid[1], str(pid[2]))
