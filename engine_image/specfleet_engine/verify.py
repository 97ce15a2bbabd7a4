"""Verification: what the target itself says at each line, and how far the drafts agree.

The target's word is its processed one: `adjust`ed logits, and above temperature 0 the `distribution` p that
temperature, min_p, top_k and top_p leave of them. Every random number belongs to the request and to the
output position (`stream`).

* Greedy: a draft is accepted while it is the argmax.
* One-hot draft: one token is drawn from p, and the draft is accepted when it is that token. This is the
  rejection rule for a one-hot proposal: x passes with probability p(x), and what is emitted in its place is
  distributed as p without x. There is no residual to divide by, and a seed's text is the same at every depth.
* Draft drawn from q: it passes if u q(x) < p(x); else one token is drawn from max(p - q, 0), or from p where
  rounding left nothing of that. A seed's law is the same at every depth, its text need not be.

Source: Leviathan et al., arXiv 2211.17192, and reference: engine-building, exactness rules 1 to 10.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from specfleet_engine.adjust import adjust, upload
from specfleet_engine.batch import Rows
from specfleet_engine.sampling import distribution, draw, lines_at_once
from specfleet_engine.stream import JUDGE, OWN
from specfleet_serving.core import Sampling, TokenLogprob

__all__ = ["Verdict", "residual", "verify"]

# JSON has no infinity; OpenAI and vLLM show an impossible token so.
_LOWEST_LOGPROB = -9999.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """New tokens of one sequence: ``accepted`` drafts, then one token of the target's own.

    ``logprobs`` has one entry for each token if the request wants them. ``failed``: the model gave this
    sequence no usable numbers, so there are no tokens.
    """

    tokens: tuple[int, ...]
    accepted: int
    logprobs: tuple[TokenLogprob, ...] = ()
    failed: bool = False


def verify(logits: torch.Tensor, rows: tuple[Rows, ...]) -> list[Verdict]:
    """Judge the drafts of every sequence, with one read-back from the device.

    ``logits`` [lines, vocabulary] has, in the order of ``rows``, one line for each draft of a sequence and
    one more: line j judges draft j, and the last one gives the token after them. At most `lines_at_once` are
    in work, which bounds the memory that it takes.
    """
    asked = [row.sequence.sampling.logprobs for row in rows]
    # Of the likeliest tokens, as many for each line as the most that anybody asks for; None: for nobody.
    count = min(max((number or 0 for number in asked), default=0), logits.shape[-1])
    shown = count if any(number is not None for number in asked) else None
    most = lines_at_once(logits.shape[-1], logits.device)
    parts = [_judge(logits[begin:end], some, shown) for begin, end, some in _portions(rows, most)]
    widths = np.array([row.drafts + 1 for row in rows])
    answer = np.split(torch.cat(parts).cpu().numpy(), widths.cumsum()[:-1])
    return [_verdict(row.sequence.sampling, lines) for row, lines in zip(rows, answer, strict=True)]


def _portions(rows: tuple[Rows, ...], most: int) -> Iterator[tuple[int, int, tuple[Rows, ...]]]:
    """Whole sequences of at most ``most`` lines together, one at least, with the lines where they lie."""
    begin = end = 0
    some: list[Rows] = []
    for row in rows:
        if some and end + row.drafts + 1 - begin > most:
            yield begin, end, tuple(some)
            begin, some = end, []
        some.append(row)
        end += row.drafts + 1
    yield begin, end, tuple(some)


def _judge(logits: torch.Tensor, rows: tuple[Rows, ...], shown: int | None) -> torch.Tensor:
    """For each line: the token if its sequence gets as far, whether that is the draft, whether the logits are
    finite; then, if any log-probabilities are wanted, pairs for its own and for the ``shown`` likeliest."""
    widths = np.array([row.drafts + 1 for row in rows])
    drafts = upload(_drafts(rows), logits.device)
    adjusted = adjust(logits, rows)
    peaks, tokens = adjusted.max(dim=-1)
    agreed = tokens == drafts
    sampled = np.array([not row.sequence.sampling.greedy for row in rows])
    if sampled.any():
        lines = upload(np.flatnonzero(np.repeat(sampled, widths)), logits.device)
        hot = tuple(row for row in rows if not row.sequence.sampling.greedy)
        tokens[lines], agreed[lines] = _judge_sampled(adjusted[lines], hot, drafts[lines])
    judged = torch.stack([tokens, agreed, peaks.isfinite()], dim=-1).double()
    if shown is None:
        return judged
    return torch.cat([judged, _logprobs(logits, tokens, rows, widths, shown)], dim=-1)


def _drafts(rows: tuple[Rows, ...]) -> npt.NDArray[np.int64]:
    """The draft that each line judges; -1: none."""
    none = np.array([-1])
    return np.concatenate(
        [part for row in rows for part in (row.tokens[len(row.tokens) - row.drafts :], none)]
    )


def _judge_sampled(
    logits: torch.Tensor, rows: tuple[Rows, ...], drafts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The token of each line if its sequence gets as far as there, and whether that is the draft."""
    widths = [row.drafts + 1 for row in rows]
    samplings = [row.sequence.sampling for row, width in zip(rows, widths, strict=True) for _ in range(width)]
    law = distribution(logits, samplings)
    uniform = upload(
        np.concatenate([row.sequence.stream.peek(width) for row, width in zip(rows, widths, strict=True)]),
        logits.device,
    )
    rivals = _lines_with_probabilities(rows)
    if not len(rivals):
        tokens = draw(law, uniform[:, OWN])
        return tokens, tokens == drafts
    lines = upload(rivals, logits.device)
    q = torch.cat([row.probabilities for row in rows if row.probabilities is not None])
    p, guesses = law[lines], drafts[lines, None]
    passed = uniform[lines, JUDGE] * q.gather(1, guesses)[:, 0].double() < p.gather(1, guesses)[:, 0]
    law[lines] = residual(p, q)
    tokens = draw(law, uniform[:, OWN])
    tokens[lines] = torch.where(passed, drafts[lines], tokens[lines])
    agreed = tokens == drafts
    agreed[lines] = passed
    return tokens, agreed


def residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """What a rejected draft is replaced from: max(p - q, 0), not renormalised; p where that is empty."""
    rest = (p - q).clamp_min(0.0)
    return torch.where(rest.sum(dim=-1, keepdim=True) > 0, rest, p)


def _lines_with_probabilities(rows: tuple[Rows, ...]) -> npt.NDArray[np.int64]:
    lines: list[int] = []
    first = 0
    for row in rows:
        if row.probabilities is not None:
            lines.extend(range(first, first + row.drafts))
        first += row.drafts + 1
    return np.array(lines, dtype=np.int64)


def _logprobs(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    rows: tuple[Rows, ...],
    widths: npt.NDArray[np.int64],
    count: int,
) -> torch.Tensor:
    """Pairs of log-probability and token: each line's own, then the likeliest. 0 where nobody wants them."""
    wanted = np.array([row.sequence.sampling.logprobs is not None for row in rows])
    lines = upload(np.flatnonzero(np.repeat(wanted, widths)), logits.device)
    asking, own = logits[lines], tokens[lines, None]
    top = asking.topk(count, dim=-1)
    values = torch.cat([asking.gather(1, own), top.values], dim=-1) - asking.logsumexp(dim=-1, keepdim=True)
    whose = torch.cat([own, top.indices], dim=-1).double()
    shown = whose.new_zeros(len(logits), 2 * (count + 1))
    pairs = torch.stack([values.double().clamp_min(_LOWEST_LOGPROB), whose], dim=-1)
    shown[lines] = pairs.flatten(start_dim=1)
    return shown


def _verdict(sampling: Sampling, lines: npt.NDArray[np.float64]) -> Verdict:
    """Read one sequence's lines: token, agreed, finite, and pairs for log-probabilities."""
    disagreed = np.flatnonzero(lines[:-1, 1] == 0)
    accepted = int(disagreed[0]) if len(disagreed) else len(lines) - 1
    reached = lines[: accepted + 1]
    if not reached[:, 2].all():
        return Verdict((), 0, failed=True)
    tokens = tuple(reached[:, 0].astype(np.int64).tolist())
    if sampling.logprobs is None:
        return Verdict(tokens, accepted)
    pairs = reached[:, 3:].reshape(len(reached), -1, 2)[:, : sampling.logprobs + 1].tolist()
    return Verdict(
        tokens,
        accepted,
        tuple(
            TokenLogprob(own[0], tuple((int(token), value) for value, token in top)) for own, *top in pairs
        ),
    )
