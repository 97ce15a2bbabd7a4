"""The compiled layer: which library this processor can use, and a module that calls it.

One call computes a whole decoder layer. `StepRows` holds what all layers of a step share; it is made by the
first layer of a step and travels with the rotary angles, which transformers hands to every layer anyway.
"""

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name that torch's own documentation uses

from specfleet_engine.batch import Batch
from specfleet_engine.kernels.build import LEVELS, Unbuildable, build, library_name
from specfleet_engine.kernels.layers import window_of
from specfleet_engine.kernels.linear import joined
from specfleet_engine.pages import HugePages

__all__ = [
    "Library",
    "NativeEmbedding",
    "NativeHead",
    "NativeLayer",
    "NativeLinear",
    "NativeRotary",
    "fits",
    "open_library",
]

_PREBUILT = Path(__file__).with_name("built")
_TYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
_LANES = 16  # every length must be a whole number of the widest vectors
_TILE = 32  # and with tiles, what goes into a product of two tiles
_NO_WINDOW = 1 << 62


_LENGTHS = ("hidden", "heads", "kv_heads", "head_size", "inner", "window")


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in _LENGTHS),
        *((name, ctypes.c_void_p) for name in ("qkv", "out", "gate_up", "down", "qkv_bias")),
        *((name, ctypes.c_void_p) for name in ("before_attention", "before_mlp", "of_queries", "of_keys")),
        *((name, ctypes.c_double) for name in ("epsilon", "scaling")),
    )


class _Step(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("positions", "slots", "tables", "cosines", "sines")),
    )


class Library:
    """One compiled level."""

    def __init__(self, level: str, file: Path) -> None:
        self.level = level
        self._functions = ctypes.CDLL(str(file))
        self._weights = HugePages()

    @property
    def permitted(self) -> bool:
        """Whether the system lets the process use it: tiles need leave of the kernel."""
        return bool(self._functions.specfleet_permitted())

    def function(self, name: str, dtype: torch.dtype, *types: Any) -> Any:
        """Give ``name`` for ``dtype``; it returns nothing."""
        found = getattr(self._functions, f"specfleet_{name}_{_TYPES[dtype]}")
        found.argtypes, found.restype = types, None
        return found

    def packed(self, weight: torch.Tensor) -> torch.Tensor:
        """Lay a weight [out, in] out as the products of this level read it."""
        if self.level == "amx" and weight.dtype is torch.bfloat16:
            outputs, inputs = weight.shape
            weight = weight.view(outputs // 16, 16, inputs // 32, 16, 2).permute(0, 2, 3, 1, 4)
        return self._weights.place(weight)

    @staticmethod
    def lines(packed: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """Read lines of a `packed` weight: ``numbers`` [...] to [..., in]."""
        if packed.dim() == 2:
            return F.embedding(numbers, packed)
        return packed[numbers // 16, :, :, numbers % 16].flatten(start_dim=-3)


@cache
def open_library(flags: frozenset[str]) -> Library | str:
    """Open the best library for a processor with ``flags``; if there is none, say why."""
    level = next((name for name, (_, needed) in LEVELS.items() if needed <= flags), None)
    if level is None:
        return "the processor has no AVX2"
    file = _PREBUILT / library_name(level)
    try:
        library = Library(level, file if file.exists() else build(level, _cache()))
    except (Unbuildable, OSError) as error:
        return str(error)
    return library if library.permitted else "the system does not permit AMX"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specfleet" / "kernels"


def fits(config: Any) -> bool:
    """Whether every length of a model is a whole number of vectors and of tiles."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    lengths = (config.hidden_size, config.intermediate_size, heads * size, kv_heads * size, config.vocab_size)
    activation = getattr(config, "hidden_act", None)
    return activation == "silu" and size % (2 * _LANES) == 0 and not any(n % _TILE for n in lengths)


class StepRows:
    """What every layer of one step needs, laid out for the library. It keeps alive what it points to."""

    def __init__(self, cosines: torch.Tensor, sines: torch.Tensor) -> None:
        half = cosines.shape[-1] // 2
        self._angles = [angle[0, :, :half].float().contiguous() for angle in (cosines, sines)]
        self._tables: Any = None
        self.step = _Step()

    def of(self, batch: Batch) -> "StepRows":
        """Fill in the rows of ``batch``, once."""
        if self._tables is None:
            self._tables = np.empty(len(batch.positions), dtype=np.int64)
            for group in batch.groups:
                lines = np.arange(len(group.table)) * (group.table.shape[1] * group.table.itemsize)
                self._tables[group.begin : group.end] = np.repeat(group.table.data_ptr() + lines, group.width)
            self.step = _Step(
                len(batch.positions),
                torch.get_num_threads(),
                batch.positions.data_ptr(),
                batch.slots.data_ptr(),
                self._tables.ctypes.data,
                *(angle.data_ptr() for angle in self._angles),
            )
        return self


class NativeRotary(torch.nn.Module):
    """In the place of the model's rotary module: its angles, ready for the library."""

    def __init__(self, rotary: torch.nn.Module) -> None:
        super().__init__()
        self._rotary = rotary

    def forward(self, hidden_states: torch.Tensor, position_ids: torch.Tensor) -> StepRows:
        return StepRows(*self._rotary(hidden_states, position_ids=position_ids))


class NativeLayer(torch.nn.Module):
    """The decoder layer of transformers that it is built from, in one call."""

    def __init__(self, layer: Any, library: Library) -> None:
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self._index: int = attention.layer_idx
        qkv = joined([attention.q_proj, attention.k_proj, attention.v_proj])
        gate_up = joined([mlp.gate_proj, mlp.up_proj])
        products = [qkv.weight, attention.o_proj.weight, gate_up.weight, mlp.down_proj.weight]
        norms = [layer.input_layernorm, layer.post_attention_layernorm]
        norms += [getattr(attention, name, None) for name in ("q_norm", "k_norm")]
        small = [qkv.bias, *(None if norm is None else norm.weight for norm in norms)]
        # Held here: the library sees addresses only.
        self._weights = [library.packed(weight.detach()) for weight in products]
        self._small = [None if one is None else one.detach().float() for one in small]
        size: int = attention.head_dim
        self._layer = _Layer(
            qkv.in_features,
            attention.q_proj.out_features // size,
            attention.k_proj.out_features // size,
            size,
            mlp.up_proj.out_features,
            window_of(layer) or _NO_WINDOW,
            *(weight.data_ptr() for weight in self._weights),
            *(None if one is None else one.data_ptr() for one in self._small),
            norms[0].variance_epsilon,
            attention.scaling,
        )
        structures = (ctypes.POINTER(_Layer), ctypes.POINTER(_Step))
        self._call = library.function("layer", qkv.weight.dtype, *structures, *(ctypes.c_void_p,) * 4)

    def forward(
        self, hidden_states: torch.Tensor, *, position_embeddings: StepRows, batch: Batch, **_: object
    ) -> torch.Tensor:
        rows = hidden_states.contiguous()
        answer = torch.empty_like(rows)
        keys, values = batch.kv.keys[self._index], batch.kv.values[self._index]
        step = position_embeddings.of(batch).step
        self._call(self._layer, step, rows.data_ptr(), keys.data_ptr(), values.data_ptr(), answer.data_ptr())
        return answer


class NativeHead(torch.nn.Module):
    """The head, which gives its logits in fp32."""

    def __init__(self, weight: torch.Tensor, library: Library) -> None:
        super().__init__()
        self.packed = library.packed(weight)
        self._outputs, self._inputs = weight.shape
        types = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, *(ctypes.c_int64,) * 3, ctypes.c_void_p)
        self._call = library.function("project", weight.dtype, *types)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        rows = states.contiguous()
        logits = torch.empty((*rows.shape[:-1], self._outputs), dtype=torch.float32)
        count = rows.numel() // self._inputs
        sizes = (self._outputs, self._inputs, torch.get_num_threads())
        self._call(rows.data_ptr(), count, self.packed.data_ptr(), *sizes, logits.data_ptr())
        return logits


class NativeEmbedding(torch.nn.Module):
    """The embedding of a model whose head is the same matrix, which is so held once."""

    def __init__(self, head: NativeHead) -> None:
        super().__init__()
        self._packed = head.packed

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return Library.lines(self._packed, tokens)


class NativeLinear(torch.nn.Module):
    """A linear layer outside of a model's own layers."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, library: Library) -> None:
        super().__init__()
        self._product = NativeHead(weight, library)
        self._bias = None if bias is None else bias.float()

    @staticmethod
    def fits(weight: torch.Tensor) -> bool:
        """Whether both lengths are whole numbers of tiles."""
        return not any(length % _TILE for length in weight.shape)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = self._product(rows)
        return (product if self._bias is None else product + self._bias).to(rows.dtype)
