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

__all__ = ["LINE_BYTES_PER_TOKEN", "distribution", "draw", "lines_at_once"]

# What judging or drawing one line takes at most beside its logits, in bytes for each token of the vocabulary.
# At top_p there are in fp32 the adjusted line, the same among the sampled ones, its probabilities, the same
# among those with a top_p, and these ranked; and in fp64 two of the running sum: 36. The rest is small.
LINE_BYTES_PER_TOKEN = 40
# Lines in work at once may take so much: enough for a step to be one piece where users are few, and for a GPU
# to be busy.
_AT_ONCE_BYTES = {"cpu": 256 << 20, "cuda": 2 << 30}

# How many candidates of a line are sorted before the whole vocabulary is, for top_p.
_NUCLEUS_GUESSES = (256, 4096)


def distribution(logits: torch.Tensor, samplings: Many[Sampling]) -> torch.Tensor:
    """Probabilities [lines, vocabulary] in fp32, one sampling for each line, none of them greedy.

    A draft that is drawn from it has this very tensor as its ``probabilities``. The logits may be of any
    float type: in bfloat16 itself the probabilities would be off by about a hundredth.
    """
    logits = logits.float()
    size = logits.shape[-1]
    settings = np.array([(s.temperature, s.top_p, s.min_p) for s in samplings])
    top_k = np.array([min(s.top_k, size) or size for s in samplings], dtype=np.int64)
    temperature, top_p, min_p = upload(settings.T.copy(), logits.device)
    # The likeliest at 0 first: at a very low temperature the quotient alone would overflow.
    weights = (logits - logits.amax(dim=-1, keepdim=True)).div_(temperature[:, None].float()).softmax(dim=-1)
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


def lines_at_once(vocabulary: int, device: torch.device) -> int:
    """How many lines of that many tokens may be in work together, so that memory stays within bounds."""
    return max(1, _AT_ONCE_BYTES[device.type] // (LINE_BYTES_PER_TOKEN * vocabulary))


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
        inside = _inside(ranked, top_p[lines, None])
        floor[lines] = ranked.gather(1, inside.sum(dim=-1, keepdim=True) - 1)
        if count < size:
            # One that is inside to its end may go on beyond what was sorted.
            lines = lines[inside[:, -1]]
        if not len(lines):
            break
    return floor


def _inside(ranked: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Which of the ``ranked`` weights are among the fewest that reach ``top_p``: at least the first."""
    before = ranked.cumsum(dim=-1, dtype=torch.float64).sub_(ranked)
    inside = before < top_p
    inside[:, 0] = True
    return inside
