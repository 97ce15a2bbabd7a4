"""From logits to a distribution, and from a distribution to a token.

The order is vLLM's: temperature, then min_p, top_k and top_p. Target and proposer use the same two functions,
so that what is drawn from is what is judged by (reference: engine-building, exactness rule 3).
"""

from collections.abc import Sequence as Many

import numpy as np
import numpy.typing as npt
import torch

from specfleet_engine.adjust import upload
from specfleet_serving.core import Sampling

__all__ = ["distribution", "draw"]

# How many candidates of a line are sorted before the whole vocabulary is, for top_p.
_NUCLEUS_GUESSES = (256, 4096)


def distribution(logits: torch.Tensor, samplings: Many[Sampling]) -> torch.Tensor:
    """Probabilities [lines, vocabulary] in fp32, one sampling for each line, none of them greedy.

    A draft that is drawn from it has this very tensor as its ``probabilities``.
    """
    size = logits.shape[-1]
    settings = np.array([(s.temperature, s.top_p, s.min_p) for s in samplings])
    top_k = np.array([min(s.top_k, size) or size for s in samplings], dtype=np.int64)
    temperature, top_p, min_p = upload(settings.T.copy(), logits.device)
    # The likeliest at 0 first: at a very low temperature the quotient alone would overflow.
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature[:, None].float()
    weights = logits.softmax(dim=-1)
    if (settings[:, 2] > 0).any():
        floor = min_p[:, None].float() * weights.amax(dim=-1, keepdim=True)
        weights = _renormalised(weights, floor)
    limited = np.flatnonzero(top_k < size)
    if len(limited):
        lines = upload(limited, logits.device)
        some = weights[lines]
        weights[lines] = _renormalised(some, _top_k_floor(some, top_k[limited]))
    limited = np.flatnonzero(settings[:, 1] < 1)
    if len(limited):
        lines = upload(limited, logits.device)
        some = weights[lines]
        weights[lines] = _renormalised(some, _top_p_floor(some, top_p[lines]))
    return weights


def draw(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """One token for each line of weights, which need not add up to 1, by the inverse of their running sum.

    ``uniform`` [lines] are fp64 numbers in [0, 1). A token of weight 0 is never drawn.
    """
    # In fp64: a running sum in fp32 would lose rare tokens.
    cumulated = weights.cumsum(dim=-1, dtype=torch.float64)
    goal = uniform[:, None] * cumulated[:, -1:]
    # A line of NaN ends past its last token; `verify` fails its sequence by other means.
    return torch.searchsorted(cumulated, goal, right=True).squeeze(-1).clamp_max(weights.shape[-1] - 1)


def _renormalised(weights: torch.Tensor, floor: torch.Tensor) -> torch.Tensor:
    """Drop what is below each line's floor; ties with the smallest that is kept stay."""
    kept = weights.masked_fill(weights < floor, 0.0)
    return kept.div_(kept.sum(dim=-1, keepdim=True))


def _top_k_floor(weights: torch.Tensor, top_k: npt.NDArray[np.int64]) -> torch.Tensor:
    """The smallest weight of each line that is among its ``top_k`` largest."""
    ranked = weights.topk(int(top_k.max()), dim=-1).values
    return ranked.gather(1, upload(top_k - 1, weights.device)[:, None])


def _top_p_floor(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The smallest weight of each line that is one of the fewest that reach ``top_p``."""
    size = weights.shape[-1]
    # Looking whether a guess was enough would make the host wait for a GPU, which sorts fast.
    guesses = [count for count in _NUCLEUS_GUESSES if count < size and weights.device.type == "cpu"]
    floor = weights.new_empty(len(weights), 1)
    lines = torch.arange(len(weights), device=weights.device)
    for count in (*guesses, size):
        ranked = weights[lines].topk(count, dim=-1).values
        sums = ranked.cumsum(dim=-1, dtype=torch.float64)
        inside = sums - ranked < top_p[lines, None]
        inside[:, 0] = True
        floor[lines] = ranked.gather(1, inside.sum(dim=-1, keepdim=True) - 1)
        if count < size:
            # One that is inside to its end may go on beyond what was sorted.
            lines = lines[inside[:, -1]]
        if not len(lines):
            break
    return floor
