"""Weight files that have a header and no bytes: real shapes on a small disk."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

_BYTES = {"BF16": 2, "I64": 8, "BOOL": 1}


def write_headers(file: Path, shapes: Mapping[str, tuple[int, ...]], dtype: str = "BF16") -> None:
    """Write a safetensors file of which only the header takes room; the rest is a hole."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape) * _BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(file, 8 + len(text) + end)


# meta-llama/Llama-3.1-8B-Instruct, as its config.json states it: 8,030,261,248 parameters.
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
}


def llama_shapes(config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """Name the tensors of a Llama whose embedding and head are two tables."""
    hidden, inner, rows = (
        int(str(config[key])) for key in ("hidden_size", "intermediate_size", "vocab_size")
    )
    keys = hidden * int(str(config["num_key_value_heads"])) // int(str(config["num_attention_heads"]))
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (rows, hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (rows, hidden),
    }
    for layer in range(int(str(config["num_hidden_layers"]))):
        own = {
            "self_attn.q_proj": (hidden, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, hidden),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
        }
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in own.items()}
    return shapes


def save_llama_8b(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_8B))
    write_headers(folder / "model.safetensors", llama_shapes(LLAMA_8B))
    return folder


def save_eagle3_of_llama_8b(folder: Path) -> Path:
    """The shapes of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B, but for its maps: the whole vocabulary is "
    "drafted."""
    folder.mkdir()
    config = {**LLAMA_8B, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config))
    layer = {
        name.replace("model.layers.0.", "midlayer."): shape
        for name, shape in llama_shapes(config).items()
        if ".layers.0." in name
    }
    for name in ("q_proj", "k_proj", "v_proj"):
        rows, width = layer[f"midlayer.self_attn.{name}.weight"]
        layer[f"midlayer.self_attn.{name}.weight"] = (rows, 2 * width)
    shapes = {
        **layer,
        "midlayer.hidden_norm.weight": (4096,),
        "fc.weight": (4096, 3 * 4096),
        "norm.weight": (4096,),
    }
    write_headers(folder / "model.safetensors", shapes)
    return folder
