"""Verification: what the target itself says at each row, and how far the drafts agree.

Greedy rows take the argmax. Sampled rows draw one token from the processed distribution p with the uniform
number that belongs to that output position; a draft is accepted when it is the token drawn. A look-up draft
is a one-hot proposal, and this is its rejection rule: the draft x passes with probability p(x), and what is
emitted in its place is distributed as p without x, renormalised (reference: engine-building, exactness
rules 1 and 2). There is no residual to divide by, and the text that a seed gives is the same at every
depth.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from specfleet_engine.batch import Rows

__all__ = ["Verdict", "verify"]

# How many candidates are sorted before the whole vocabulary is, for top_p.
_NUCLEUS_GUESS = 512


@dataclass(frozen=True, slots=True)
class Verdict:
    """New tokens of one sequence: ``accepted`` drafts, then one token of the target's own."""

    tokens: tuple[int, ...]
    accepted: int


def verify(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
    """Judge the drafts of every sequence.

    ``logits`` has, in the order of ``rows``, one line for each draft of a sequence and one more: line j
    judges draft j, and the last one gives the token after them. Raises FloatingPointError if the model
    produced NaN.
    """
    chosen = _choose(logits, rows)
    verdicts = []
    begin = 0
    for row in rows:
        own = chosen[begin : begin + row.drafts + 1]
        begin += row.drafts + 1
        wrong = np.flatnonzero(own[:-1] != row.tokens[len(row.tokens) - row.drafts :])
        accepted = int(wrong[0]) if len(wrong) else row.drafts
        verdicts.append(Verdict(tuple(own[: accepted + 1].tolist()), accepted))
    return verdicts


def _choose(logits: torch.Tensor, rows: tuple[Rows, ...]) -> npt.NDArray[np.int64]:
    """The target's token at each line. One read-back from the device."""
    peaks, chosen = logits.max(dim=-1)
    sampled = np.repeat(
        [row.sequence.sampling.temperature > 0 for row in rows], [row.drafts + 1 for row in rows]
    )
    if sampled.any():
        hot = [row for row in rows if row.sequence.sampling.temperature > 0]
        lines = torch.from_numpy(np.flatnonzero(sampled)).to(logits.device)
        chosen[lines] = _draw(logits[lines], hot)
    chosen = torch.where(peaks.isfinite(), chosen, -1)
    answer: npt.NDArray[np.int64] = chosen.cpu().numpy()
    if (answer < 0).any():
        raise FloatingPointError("the model produced logits that are not finite numbers")
    return answer


def _draw(logits: torch.Tensor, rows: list[Rows]) -> torch.Tensor:
    """One token a line, by the inverse of the cumulated distribution; fp64 for the sake of rare tokens."""
    widths = [row.drafts + 1 for row in rows]
    uniform = np.concatenate(
        [row.sequence.stream.peek(width) for row, width in zip(rows, widths, strict=True)]
    )
    settings = np.repeat(
        [(s.temperature, s.top_p, s.top_k) for s in (row.sequence.sampling for row in rows)], widths, axis=0
    )
    weights = _process(logits.double(), torch.from_numpy(settings).to(logits.device))
    cumulated = weights.cumsum(dim=-1)
    goal = torch.from_numpy(uniform).to(logits.device)[:, None] * cumulated[:, -1:]
    return torch.searchsorted(cumulated, goal, right=True).squeeze(-1)


def _process(logits: torch.Tensor, settings: torch.Tensor) -> torch.Tensor:
    """Weights [lines, vocabulary] after temperature, top_k and top_p, in this order; not renormalised."""
    temperature, top_p, top_k = settings.unbind(dim=-1)
    logits = logits / temperature[:, None]
    limited = torch.nonzero(top_k > 0).squeeze(-1)
    if len(limited):
        logits[limited] = _keep_top_k(logits[limited], top_k[limited].long())
    weights = logits.softmax(dim=-1)
    limited = torch.nonzero(top_p < 1).squeeze(-1)
    if len(limited):
        weights[limited] = _keep_top_p(weights[limited], top_p[limited])
    return weights


def _keep_top_k(logits: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """Drop all but the ``top_k`` largest of each line; ties with the smallest that is kept stay."""
    top_k = top_k.clamp(max=logits.shape[-1])
    ranked = logits.topk(int(top_k.max()), dim=-1).values
    floor = ranked.gather(1, top_k[:, None] - 1)
    return logits.masked_fill(logits < floor, float("-inf"))


def _keep_top_p(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the fewest largest of each line that reach ``top_p``; ties with the smallest that is kept stay."""
    size = weights.shape[-1]
    for count in (min(_NUCLEUS_GUESS, size), size):
        ranked = weights.topk(count, dim=-1).values
        before = ranked.cumsum(dim=-1) - ranked
        inside = before < top_p[:, None]
        # A line that is inside to its end may go on beyond what was sorted.
        if count == size or not bool(inside[:, -1].any()):
            break
    inside[:, 0] = True
    floor = ranked.gather(1, inside.sum(dim=-1, keepdim=True) - 1)
    return weights.masked_fill(weights < floor, 0.0)
