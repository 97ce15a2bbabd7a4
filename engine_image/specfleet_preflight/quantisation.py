"""How weights are quantised, wherever the tool that did it wrote that down, and what an engine may be asked.

Source: vLLM 0.32, transformers_utils/config.py, config/model.py and model_executor/layers/quantization
(``get_config_filenames``, ``override_quantization_method``); SGLang 0.5.23, configs/model_config.py.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specfleet_preflight.documents import read_object

__all__ = ["quantisation_faults", "quantised_with"]

# Files beside config.json: of ModelOpt before 0.31, of AutoGPTQ and AutoAWQ, of AutoAWQ and others.
_MODELOPT, _FILES = "hf_quant_config.json", ("quantize_config.json", "quant_config.json")
# Methods that only run weights which were quantised before.
_STORED = ("awq", "gptq", "compressed-tensors", "modelopt")
# Of these two are never one another's; some engine converts or requantises any other pair.
_SEPARATE = (*_STORED, "bitsandbytes")


def quantised_with(path: Path, config: Mapping[str, Any]) -> str | None:
    """Name the method of a folder's weights; None: they are not quantised. Raises Unreadable."""
    text = config.get("text_config")
    for said in (config, text if isinstance(text, dict) else {}):
        for key in ("quantization_config", "compression_config"):
            if isinstance(found := said.get(key), dict):
                return str(found.get("quant_method") or ("modelopt" if "quant_algo" in found else "unnamed"))
    if (path / _MODELOPT).is_file():
        return "modelopt"
    for name in _FILES:
        if (path / name).is_file():
            found = read_object(path / name)
            # AutoGPTQ alone orders columns by activation.
            return str(found.get("quant_method") or ("gptq" if "desc_act" in found else "awq"))
    return None


def quantisation_faults(own: str | None, asked: str | None) -> Iterator[str]:
    """Say whether ``engine.quantization`` can be asked of weights that are quantised with ``own``."""
    if asked is None:
        return
    if own is None:
        if _family(asked) in _STORED:
            yield (
                f"engine.quantization {asked} needs weights that are stored so, and these are not quantised: "
                "drop it, or name a quantised copy of the model"
            )
        return
    ours, theirs = _family(asked), _family(own)
    if ours != theirs and ours in _SEPARATE and theirs in _SEPARATE:
        yield f"engine.quantization {asked} and the model's own {own} contradict each other: drop the field"


def _family(method: str) -> str:
    """Drop what names a faster form or a width of the same: awq_marlin, auto_gptq, modelopt_fp4."""
    name = method.lower().replace("_", "-").removeprefix("auto-").removesuffix("-marlin")
    return "modelopt" if name.startswith("modelopt") else name
