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

# How many candidates are sorted before the whole vocabulary is, for top_p.
_NUCLEUS_GUESS = 512


def distribution(logits: torch.Tensor, samplings: Many[Sampling]) -> torch.Tensor:
    """Probabilities [lines, vocabulary] in fp64, one sampling for each line, none of them greedy.

    A draft is drawn from it in fp32, and that very tensor is its ``probabilities``.
    """
    size = logits.shape[-1]
    settings = np.array([(s.temperature, s.top_p, s.min_p) for s in samplings])
    top_k = np.array([min(s.top_k, size) or size for s in samplings], dtype=np.int64)
    temperature, top_p, min_p = upload(settings.T.copy(), logits.device)
    weights: torch.Tensor = (logits.double() / temperature[:, None]).softmax(dim=-1)
    if (settings[:, 2] > 0).any():
        peaks = weights.amax(dim=-1, keepdim=True)
        weights = weights.masked_fill(weights < min_p[:, None] * peaks, 0.0)
    limited = np.flatnonzero(top_k < size)
    if len(limited):
        lines = upload(limited, logits.device)
        weights[lines] = _keep_top_k(weights[lines], top_k[limited])
    weights /= weights.sum(dim=-1, keepdim=True)
    limited = np.flatnonzero(settings[:, 1] < 1)
    if len(limited):
        lines = upload(limited, logits.device)
        kept = _keep_top_p(weights[lines], top_p[lines])
        weights[lines] = kept / kept.sum(dim=-1, keepdim=True)
    return weights


def draw(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """One token for each line of weights, which need not add up to 1, by the inverse of their running sum.

    ``uniform`` [lines] are numbers in [0, 1). A token of weight 0 is never drawn. In fp64 for the sake of
    rare tokens.
    """
    cumulated = weights.double().cumsum(dim=-1)
    goal = uniform[:, None] * cumulated[:, -1:]
    # A line of NaN ends past its last token; `verify` fails its sequence by other means.
    return torch.searchsorted(cumulated, goal, right=True).squeeze(-1).clamp_max(weights.shape[-1] - 1)


def _keep_top_k(weights: torch.Tensor, top_k: npt.NDArray[np.int64]) -> torch.Tensor:
    """Drop all but the ``top_k`` largest of each line; ties with the smallest that is kept stay."""
    ranked = weights.topk(int(top_k.max()), dim=-1).values
    floor = ranked.gather(1, upload(top_k - 1, weights.device)[:, None])
    return weights.masked_fill(weights < floor, 0.0)


def _keep_top_p(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the fewest largest of each line that reach ``top_p``; ties with the smallest that is kept stay."""
    size = weights.shape[-1]
    # Looking whether the guess was enough would make the host wait for a GPU, which sorts fast.
    counts = (min(_NUCLEUS_GUESS, size), size) if weights.device.type == "cpu" else (size,)
    for count in counts:
        ranked = weights.topk(count, dim=-1).values
        before = ranked.cumsum(dim=-1) - ranked
        inside = before < top_p[:, None]
        # A line that is inside to its end may go on beyond what was sorted.
        if count == size or not bool(inside[:, -1].any()):
            break
    inside[:, 0] = True
    floor = ranked.gather(1, inside.sum(dim=-1, keepdim=True) - 1)
    return weights.masked_fill(weights < floor, 0.0)
