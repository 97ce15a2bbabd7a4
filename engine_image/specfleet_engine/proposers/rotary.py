"""Rotary positions of a head: angles by position, with the head's own theta and scaling.

A head is not a model of transformers, so this is the one piece of it that is written again. It knows the
plain form and the two scalings that published heads use.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch

from specfleet_engine.errors import ProposerRefused
from specfleet_engine.proposers.folder import Folder

__all__ = ["Rotary", "read_rotary"]


class Rotary:
    """Turns [rows, heads, size] by their positions. Raises ValueError for a scaling it does not know."""

    def __init__(self, config: Mapping[str, Any], size: int, device: torch.device) -> None:
        settings = {
            "rope_theta": config.get("rope_theta") or 10_000.0,
            **(config.get("rope_scaling") or {}),
            **(config.get("rope_parameters") or {}),
        }
        kind = settings.get("rope_type") or settings.get("type") or "default"
        steps = torch.arange(0, size, 2, dtype=torch.float32, device=device) / size
        frequencies = 1.0 / float(settings["rope_theta"]) ** steps
        if kind == "linear":
            frequencies = frequencies / settings["factor"]
        elif kind == "llama3":
            frequencies = _llama3(frequencies, settings)
        elif kind != "default":
            raise ValueError(f"rotary scaling {kind!r} is not served: default, linear and llama3 are")
        self._frequencies = frequencies

    def turn(self, positions: torch.Tensor, *states: torch.Tensor) -> list[torch.Tensor]:
        """Turn each of ``states`` [rows, heads, size] by ``positions`` [rows]."""
        angles = positions[:, None].float() * self._frequencies
        cosine, sine = (torch.cat([part, part], dim=-1)[:, None] for part in (angles.cos(), angles.sin()))
        return [
            state * cosine.to(state.dtype) + _rotate_half(state) * sine.to(state.dtype) for state in states
        ]


def read_rotary(folder: Folder, size: int, device: torch.device) -> Rotary:
    """Make the rotary positions that a head's config asks for. Raises ProposerRefused."""
    try:
        return Rotary(folder.config, size, device)
    except KeyError as error:
        raise ProposerRefused(f"the rotary scaling of the head in {folder.path} lacks {error}") from error
    except (ValueError, TypeError) as error:
        raise ProposerRefused(f"the head in {folder.path} cannot be served: {error}") from error


def _rotate_half(state: torch.Tensor) -> torch.Tensor:
    left, right = state.chunk(2, dim=-1)
    return torch.cat([-right, left], dim=-1)


def _llama3(frequencies: torch.Tensor, settings: Mapping[str, Any]) -> torch.Tensor:
    """Slow the long waves down by ``factor``, keep the short ones, and blend in between (Llama 3.1)."""
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    waves = settings["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    keep = ((waves - low) / (high - low)).clamp(0.0, 1.0)
    slowed: torch.Tensor = frequencies * (keep + (1.0 - keep) / settings["factor"])
    return slowed
