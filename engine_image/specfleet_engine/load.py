"""From a model folder to a model and a tokenizer, or to one sentence that says why not.

Everything that can be wrong with a folder is found here, before the engine says that it is ready: a tensor
that is missing would otherwise be random numbers, and one that is left over a model that was never read as
a whole.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils.logging import disable_progress_bar

from specfleet_engine.errors import DeviceMissing, ModelRefused
from specfleet_engine.forward import ATTENTION, TargetModel
from specfleet_engine.tokenizer import EngineTokenizer

__all__ = ["ARCHITECTURES", "check_transformers_version", "choose_device", "load_model", "load_tokenizer"]

# Each is compared with transformers' own logits in tests/integration/engine.
ARCHITECTURES = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})

_OLDEST, _NEWEST = (5, 16), (5, 24)


def check_transformers_version(version: str = transformers.__version__) -> None:
    """Raise ModelRefused outside the tested range: attention reaches into interfaces that change."""
    release = tuple(int(part) for part in version.split(".")[:2])
    if not _OLDEST <= release <= _NEWEST:
        raise ModelRefused(
            f"transformers {version} is installed, but this engine is tested with 5.16 to 5.24: "
            f"install transformers>=5.16,<5.25"
        )


def choose_device(name: str) -> torch.device:
    """Give the device of ``auto``, ``cpu`` or ``cuda``; auto takes a GPU if there is one.

    Raises DeviceMissing.
    """
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise DeviceMissing(
            "--device cuda, but torch finds no GPU: give the container one, install a torch build with CUDA, "
            "or use --device cpu"
        )
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def load_model(
    path: Path,
    dtype: torch.dtype,
    max_model_len: int | None = None,
    device: torch.device = torch.device("cpu"),  # noqa: B008  a constant
) -> TargetModel:
    """Read the weights of ``path`` into place, strictly, and check ``max_model_len`` against the positions.

    Raises ModelRefused.
    """
    check_transformers_version()
    disable_progress_bar()  # type: ignore[no-untyped-call]
    _check_config(path, _read_config(path), max_model_len)
    model, found = _refusing(
        path,
        lambda: AutoModelForCausalLM.from_pretrained(
            path,
            dtype=dtype,
            device_map={"": device},
            attn_implementation=ATTENTION,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        ),
    )
    faults = [
        f"{what} tensors: {_some(names)}"
        for what, names in (("missing", found["missing_keys"]), ("left-over", found["unexpected_keys"]))
        if names
    ]
    if faults:
        raise ModelRefused(f"the weights in {path} are not those of its config.json: {'; '.join(faults)}")
    return TargetModel(model.eval().requires_grad_(False))


def load_tokenizer(path: Path, model: TargetModel) -> EngineTokenizer:
    """Read the tokenizer of ``path`` and the tokens that end a text. Raises ModelRefused."""
    if not (path / "tokenizer.json").is_file():
        raise ModelRefused(
            f"no tokenizer.json in {path}: save the tokenizer with the model (fast tokenizers only)"
        )
    tokenizer = _refusing(
        path, lambda: AutoTokenizer.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    )
    if len(tokenizer) > model.vocabulary_size:
        raise ModelRefused(
            f"the tokenizer in {path} has {len(tokenizer)} tokens and the model {model.vocabulary_size}: "
            f"they do not belong together"
        )
    return EngineTokenizer(tokenizer, _eos_ids(path, tokenizer.eos_token_id), model.vocabulary_size)


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise ModelRefused(
            f"the model path {path} is not a directory in this container: check spec.model and its mount"
        )
    file = path / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelRefused(f"no config.json in {path}: the path must be the model's own folder") from None
    except (OSError, ValueError) as error:
        raise ModelRefused(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(config, dict):
        raise ModelRefused(f"{file} must hold a JSON object")
    return config


def _check_config(path: Path, config: dict[str, Any], max_model_len: int | None) -> None:
    architectures = config.get("architectures") or ["none"]
    if architectures[0] not in ARCHITECTURES:
        raise ModelRefused(
            f"{path} is a {architectures[0]}, which this engine does not serve: "
            f"it serves {', '.join(sorted(ARCHITECTURES))}"
        )
    if config.get("quantization_config"):
        raise ModelRefused(f"{path} has quantised weights: convert them to float32 or bfloat16 safetensors")
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int):
        raise ModelRefused(f"max_position_embeddings is missing in {path / 'config.json'}")
    if max_model_len is not None and max_model_len > positions:
        raise ModelRefused(
            f"--max-model-len {max_model_len} is more than the {positions} positions of the model in {path}"
        )


def _refusing(path: Path, read: Callable[[], Any]) -> Any:
    """Turn what transformers and safetensors raise for a bad folder into one line."""
    try:
        return read()
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:400]
        raise ModelRefused(
            f"the model in {path} cannot be loaded: {type(error).__name__}: {reason}"
        ) from error


def _some(names: set[str]) -> str:
    shown = sorted(names)[:4]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _eos_ids(path: Path, of_tokenizer: int | None) -> frozenset[int]:
    """The generation config may name several; the tokenizer's own ends a chat turn."""
    ids = set() if of_tokenizer is None else {of_tokenizer}
    if (path / "generation_config.json").is_file():
        config = _refusing(path, lambda: GenerationConfig.from_pretrained(path, local_files_only=True))
        more = config.eos_token_id
        ids.update(more if isinstance(more, list) else [] if more is None else [more])
    return frozenset(ids)
