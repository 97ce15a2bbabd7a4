"""A folder of weights as far as it can be known without reading any: config and shapes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from specfleet_preflight import pickled
from specfleet_preflight.documents import read_object
from specfleet_preflight.errors import Unreadable
from specfleet_preflight.quantisation import quantised_with
from specfleet_preflight.tensor import Shape, Tensor

__all__ = ["Checkpoint", "mismatches", "open_checkpoint"]

# Tables that every rotary layer can compute itself; old checkpoints saved them.
_COMPUTED = "rotary_emb.inv_freq"
_INDEX = "model.safetensors.index.json"
# What trainers leave beside the weights.
_OF_TRAINING = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
# What GPT-2 and families after it call the sizes of a config.
_OTHER_NAMES = {
    "num_hidden_layers": ("n_layer", "n_layers"),
    "hidden_size": ("n_embd", "d_model"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("n_head_kv", "num_kv_heads"),
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What lies in a folder. Nothing of it has been checked yet.

    ``quantisation``: the method that its weights are quantised with.
    """

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    quantisation: str | None

    def setting(self, name: str, default: Any = None) -> Any:
        """A value of the config, or of its ``eagle_config``, where some trainers put it."""
        nested = self.config.get("eagle_config")
        inner = nested if isinstance(nested, dict) else {}
        return self.config.get(name, inner.get(name, default))

    def number(self, name: str, default: int | None = None) -> int:
        """A setting that must be a positive whole number, by any name that it goes by. Raises Unreadable."""
        names = (name, *_OTHER_NAMES.get(name, ()))
        value = next((self.config[each] for each in names if self.config.get(each) is not None), None)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise Unreadable(
                f"{name} in {self.path / 'config.json'} must be a whole number above 0, got {value!r}: "
                "name a revision whose config is whole"
            )
        return value

    @property
    def text(self) -> "Checkpoint":
        """The same with the config of the language model, which multimodal models and heads nest."""
        for name in ("text_config", "transformer_layer_config"):
            if isinstance(inner := self.config.get(name), dict):
                return replace(self, config=inner)
        return self

    @property
    def architecture(self) -> str:
        architectures = self.config.get("architectures")
        return str(architectures[0]) if isinstance(architectures, list) and architectures else "none"

    def integers(self, name: str) -> npt.NDArray[np.int64]:
        """Read one small tensor of ids. Raises Unreadable."""
        file = self.tensors[name].file
        try:
            if file.suffix == ".safetensors":
                with safe_open(file, framework="np") as opened:
                    return np.asarray(opened.get_tensor(name)).astype(np.int64)
            return pickled.integers(file, name)
        except (OSError, SafetensorError, ValueError, TypeError) as error:
            raise Unreadable(
                f"{name} in {file} cannot be read ({type(error).__name__}): fetch it again, or name a "
                "revision that is whole"
            ) from error


def mismatches(
    tensors: Mapping[str, Tensor], wanted: Mapping[str, Shape], optional: Mapping[str, Shape]
) -> Iterator[str]:
    """Name the tensors that are missing, left over, or of another shape.

    A missing one would be random numbers, a left-over one a head that is read as something else; both show as
    a low acceptance and nothing more.
    """
    known = {**wanted, **optional}
    yield from _naming("missing tensors", wanted.keys() - tensors.keys())
    yield from _naming("left-over tensors", tensors.keys() - known.keys())
    yield from _naming(
        "wrong shapes",
        [
            f"{name} is {list(tensors[name].shape)} and not {list(shape)}"
            for name, shape in known.items()
            if name in tensors and tensors[name].shape != shape
        ],
    )


def _naming(what: str, names: Iterable[str]) -> Iterator[str]:
    shown = sorted(names)
    if shown:
        more = f" and {len(shown) - 4} more" if len(shown) > 4 else ""
        yield f"{what}: {', '.join(shown[:4])}{more}"


def open_checkpoint(path: Path, *, pickles: bool) -> Checkpoint:
    """Read the config and the headers of every weight file of ``path``. Raises Unreadable.

    ``pickles``: without safetensors take *.bin and *.pt, as engines do for a proposer.
    """
    if not path.is_dir():
        raise Unreadable(f"{path} is not a directory in this pod: check the path of the uri")
    config = read_object(path / "config.json")
    tensors: dict[str, Tensor] = {}
    for file in _weight_files(path, pickles):
        for name, tensor in _headers(file):
            if not name.endswith(_COMPUTED):
                tensors[name] = tensor
    _check_index(path, tensors)
    return Checkpoint(path, config, tensors, quantised_with(path, config))


def _weight_files(path: Path, pickles: bool) -> list[Path]:
    if files := sorted(path.glob("*.safetensors")):
        # One repository may hold the same weights twice, as `consolidated` too.
        return [file for file in files if not file.name.startswith("consolidated")] or files
    for pattern in ("*.bin", "*.pt") if pickles else ():
        # Engines take the first kind that is there at all, and drop a trainer's own files only then.
        if files := sorted(path.glob(pattern)):
            return _of_the_model(path, files)
    if any(path.glob("*.gguf")):
        raise Unreadable(f"{path} has its weights as GGUF: name a repository with safetensors")
    kinds = " nor *.bin nor *.pt" if pickles else ""
    raise Unreadable(
        f"no weights in {path}: it has neither *.safetensors{kinds}; check the path of the uri, or name a "
        "revision that has them"
    )


def _of_the_model(path: Path, files: list[Path]) -> list[Path]:
    weights = [file for file in files if not file.name.endswith(_OF_TRAINING)]
    if not weights:
        raise Unreadable(
            f"no weights in {path}: engines take {files[0].name} for them, which a trainer left there; name "
            "a copy without it"
        )
    return weights


def _headers(file: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        if file.suffix != ".safetensors":
            yield from pickled.headers(file)
            return
        with safe_open(file, framework="np") as opened:
            for name in opened.keys():  # noqa: SIM118  not a mapping
                part = opened.get_slice(name)
                yield name, Tensor(part.get_dtype(), tuple(part.get_shape()), file)
    except (OSError, SafetensorError, ValueError) as error:
        raise Unreadable(
            f"{file} cannot be read ({type(error).__name__}): it is cut or no weight file; fetch it again"
        ) from error


def _check_index(path: Path, tensors: Mapping[str, Tensor]) -> None:
    if not (path / _INDEX).is_file():
        return
    listed = read_object(path / _INDEX).get("weight_map")
    missing = sorted(set(listed if isinstance(listed, dict) else ()) - tensors.keys())
    missing = [name for name in missing if not name.endswith(_COMPUTED)]
    if missing:
        raise Unreadable(
            f"{path} lacks {len(missing)} tensors that its index names, {missing[0]} first: fetch it again"
        )
