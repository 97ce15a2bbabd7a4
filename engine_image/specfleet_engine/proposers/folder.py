"""A proposer's folder: its config.json and its tensors, read whole or refused.

A tensor that is missing would be random numbers and one that is left over a head that was read as
something else; both would show as a low acceptance and nothing more (engine-faults.md, rows 28 and 29).
"""

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from specfleet_engine.errors import ProposerRefused

__all__ = ["Folder", "Shape", "open_folder"]

Shape = tuple[int, ...]

# Tables that every rotary layer can compute itself; old checkpoints saved them.
_COMPUTED = "rotary_emb.inv_freq"


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies in a proposer's folder. Nothing of it has been checked yet."""

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]

    def setting(self, name: str, default: Any = None) -> Any:
        """A value of the config, or of its ``eagle_config``, where some trainers put it."""
        nested = self.config.get("eagle_config")
        inner = nested if isinstance(nested, dict) else {}
        return self.config.get(name, inner.get(name, default))

    def whole_number(self, name: str, default: int | None = None) -> int:
        """A setting that must be a positive whole number. Raises ProposerRefused."""
        value = self.config.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or value < 1:
            raise ProposerRefused(
                f"{name} in {self.path / 'config.json'} must be a whole number above 0, got {value!r}"
            )
        return value

    def take(
        self, wanted: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None
    ) -> dict[str, torch.Tensor]:
        """Give exactly the ``wanted`` tensors, and those of the ``optional`` that are there.

        Raises ProposerRefused with every tensor that is missing, left over, or of another shape.
        """
        known = {**wanted, **(optional or {})}
        wrong = [
            f"{name} is {list(self.tensors[name].shape)} and not {list(shape)}"
            for name, shape in known.items()
            if name in self.tensors and tuple(self.tensors[name].shape) != shape
        ]
        faults = [
            *_naming("missing tensors", wanted.keys() - self.tensors.keys()),
            *_naming("left-over tensors", self.tensors.keys() - known.keys()),
            *_naming("wrong shapes", wrong),
        ]
        if faults:
            raise ProposerRefused(
                f"the proposer in {self.path} is not what its config.json says: {'; '.join(faults)}"
            )
        return {name: self.tensors[name] for name in known if name in self.tensors}


def open_folder(path: Path, *, allow_pickle: bool) -> Folder:
    """Read config and tensors of ``path``. Raises ProposerRefused.

    Pickle files can run code when they are read; they are read with ``weights_only`` and only if
    ``allow_pickle`` says so.
    """
    if not path.is_dir():
        raise ProposerRefused(
            f"the proposer path {path} is not a directory in this container: check speculation.proposer "
            f"and its mount"
        )
    return Folder(path, _read_config(path / "config.json"), _read_tensors(path, allow_pickle))


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProposerRefused(
            f"no config.json in {file.parent}: the path must be the proposer's own folder"
        ) from None
    except (OSError, ValueError) as error:
        raise ProposerRefused(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(config, dict):
        raise ProposerRefused(f"{file} must hold a JSON object")
    return config


def _read_tensors(path: Path, allow_pickle: bool) -> dict[str, torch.Tensor]:
    files = sorted(path.glob("*.safetensors"))
    pickles = sorted([*path.glob("*.bin"), *path.glob("*.pt")])
    if not files and not pickles:
        raise ProposerRefused(f"no weights in {path}: it has neither *.safetensors nor *.bin nor *.pt")
    if not files and not allow_pickle:
        raise ProposerRefused(
            f"{pickles[0]} is a pickle file, which can run code when it is read: convert it once with "
            f"safetensors.torch.save_file(torch.load(file, weights_only=True), 'model.safetensors'), "
            f"or start with --allow-pickle"
        )
    tensors: dict[str, torch.Tensor] = {}
    for file in files or pickles:
        for name, tensor in _read_file(file).items():
            if name in tensors:
                raise ProposerRefused(f"the tensor {name} is in more than one file of {path}")
            if not name.endswith(_COMPUTED):
                tensors[name] = tensor
    return tensors


def _read_file(file: Path) -> dict[str, torch.Tensor]:
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        # weights_only: an archive that wants to run code raises instead.
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ProposerRefused(f"{file} cannot be read: {type(error).__name__}: {reason}") from error
    if not isinstance(loaded, dict) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise ProposerRefused(f"{file} must hold a flat mapping of names to tensors")
    return loaded


def _naming(what: str, names: set[str] | list[str]) -> list[str]:
    shown = sorted(names)[:6]
    if not shown:
        return []
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return [f"{what}: {', '.join(shown)}{more}"]
