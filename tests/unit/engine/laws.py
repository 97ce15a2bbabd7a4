"""The law that a sampled text must follow, calculated token by token in plain numpy, and a chi-squared test.

The target is a Markov chain (checkpoints.md, section 6B): a line of logits is the logarithm of a row of its
matrix. A text of a few tokens has few enough forms that each one's probability can be written down, whatever
a request's settings make of the chain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from specfleet_engine.batch import Rows
from specfleet_engine.sampling import distribution, draw
from specfleet_engine.sequence import Sequence as EngineSequence
from specfleet_engine.stream import DRAFT
from specfleet_engine.verify import Verdict, verify
from specfleet_serving.core import Request, Sampling

Law = npt.NDArray[np.float64]
Judge = Callable[[torch.Tensor, tuple[Rows, ...]], list[Verdict]]

SIZE = 5
LENGTH = 3
PROMPT = (2, 0, 4, 0)

# Each temperature, limit and penalty alone.
SETTINGS: dict[str, dict[str, Any]] = {
    "T-0.7": {"temperature": 0.7},
    "T-1": {},
    "T-1.5": {"temperature": 1.5},
    "top-k": {"top_k": 3},
    "top-p": {"top_p": 0.85},
    "min-p": {"min_p": 0.1},
    "presence": {"presence_penalty": 1.2},
    "frequency": {"frequency_penalty": 0.9},
    "repetition": {"repetition_penalty": 1.8},
}


def _chain(seed: int) -> Law:
    weights = np.random.default_rng(seed).gamma(1.0, size=(SIZE, SIZE)) + 0.08
    law: Law = weights / weights.sum(axis=1, keepdims=True)
    return law


TARGET = _chain(1)
PROPOSER = 0.5 * TARGET + 0.5 * _chain(2)


def next_token_law(text: Sequence[int], sampling: Sampling) -> Law:
    """What the next token after prompt and output should be, one rule after the other."""
    logits = np.log(TARGET[text[-1]])
    output = text[len(PROMPT) :]
    for token, bias in sampling.logit_bias:
        logits[token] += bias
    if len(output) < sampling.min_tokens:
        logits[list(sampling.ends)] = -np.inf
    for token in set(text):
        logits[token] *= sampling.repetition_penalty if logits[token] < 0 else 1 / sampling.repetition_penalty
    for token in set(output):
        logits[token] -= sampling.frequency_penalty * output.count(token) + sampling.presence_penalty
    weights = np.exp(logits / sampling.temperature)
    weights /= weights.sum()
    weights[weights < sampling.min_p * weights.max()] = 0
    order = np.argsort(-weights)
    weights[order[sampling.top_k or SIZE :]] = 0
    weights /= weights.sum()
    passed = 0.0
    for token in order:
        if passed >= sampling.top_p:
            weights[token] = 0
        passed += weights[token]
    law: Law = weights / weights.sum()
    return law


def text_law(sampling: Sampling, tokens: int = LENGTH) -> Law:
    """Probability of each possible output [SIZE, SIZE, ...] of so many tokens."""
    law = np.ones((SIZE,) * tokens)
    for output in product(range(SIZE), repeat=tokens):
        for length in range(tokens):
            law[output] *= next_token_law([*PROMPT, *output[:length]], sampling)[output[length]]
    return law


def _itself(law: torch.Tensor) -> torch.Tensor:
    return law


@dataclass(frozen=True)
class Drafter:
    """Drafts up to ``depth`` tokens by the proposer's chain: the likeliest ones, or drawn ones.

    ``told`` is what it says they were drawn from; None: it says that the drafts are one-hot.
    """

    depth: int
    drawn: bool
    told: Callable[[torch.Tensor], torch.Tensor] | None

    def rows(self, sequences: list[EngineSequence]) -> tuple[Rows, ...]:
        tokens: list[list[int]] = [[int(sequence.tokens[-1])] for sequence in sequences]
        told: list[list[torch.Tensor]] = [[] for _ in sequences]
        for place in range(self.depth):
            drafting = [at for at, sequence in enumerate(sequences) if place < sequence.remaining - 1]
            if not drafting:
                break
            samplings = [sequences[at].sampling for at in drafting]
            logits = torch.from_numpy(np.log(PROPOSER[[tokens[at][-1] for at in drafting]]))
            law = distribution(logits, samplings)
            uniform = [sequences[at].stream.peek(place + 1)[place, DRAFT] for at in drafting]
            drafts = draw(law, torch.tensor(uniform)) if self.drawn else law.argmax(dim=-1)
            for at, draft, line in zip(drafting, drafts.tolist(), (self.told or _itself)(law), strict=True):
                tokens[at].append(draft)
                told[at].append(line)
        return tuple(map(self._rows, sequences, tokens, told))

    def _rows(self, sequence: EngineSequence, tokens: list[int], laws: list[torch.Tensor]) -> Rows:
        probabilities = torch.stack(laws) if self.told and laws else None
        return Rows(sequence, len(sequence) - 1, np.array(tokens), len(tokens) - 1, probabilities)


ONE_HOT = Drafter(depth=2, drawn=False, told=None)
DRAWN = Drafter(depth=2, drawn=True, told=_itself)


def counts(
    sampling: Callable[[int], Sampling], drafter: Drafter, seeds: range, judge: Judge = verify
) -> tuple[Law, float]:
    """Let texts be generated as the engine does; give how often each came, and the accepted share."""
    sequences = [EngineSequence(Request(str(seed), PROMPT, sampling(seed)), 100) for seed in seeds]
    drafted = accepted = 0
    while running := [sequence for sequence in sequences if sequence.remaining]:
        rows = drafter.rows(running)
        lasts = np.concatenate([row.tokens for row in rows])
        logits = torch.from_numpy(np.log(TARGET[lasts])).float()
        for row, verdict in zip(rows, judge(logits, rows), strict=True):
            row.sequence.append(verdict.tokens)
            drafted += row.drafts
            accepted += verdict.accepted
    seen = np.zeros((SIZE,) * LENGTH)
    for sequence in sequences:
        seen[tuple(sequence.tokens[len(PROMPT) :])] += 1
    return seen, accepted / max(drafted, 1)


def p_value(seen: Law, law: Law) -> float:
    """Chance of counts at least this far from the law; 0 if something impossible happened."""
    seen, wanted = seen.ravel(), law.ravel() * seen.sum()
    if seen[wanted == 0].any():
        return 0.0
    order = np.argsort(wanted)
    order = order[wanted[order] > 0]
    # The approximation needs 5 expected in each cell: the rarest are joined.
    first = int(np.searchsorted(wanted[order].cumsum(), 5)) + 1
    starts = [0, *range(first, len(order))]
    while len(starts) > 1 and wanted[order[starts[-1] :]].sum() < 5:
        starts.pop()
    joined_seen = np.add.reduceat(seen[order], starts)
    joined_wanted = np.add.reduceat(wanted[order], starts)
    square = float(((joined_seen - joined_wanted) ** 2 / joined_wanted).sum())
    freedom = max(len(starts) - 1, 1)
    return float(torch.special.gammaincc(torch.tensor(freedom / 2), torch.tensor(square / 2)))


def distance_from_uniform(values: Sequence[float]) -> float:
    """Kolmogorov's distance, times the root of the count: above 1.95 with chance 0.001."""
    ordered = np.sort(values)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()) * len(ordered) ** 0.5)


def later(law: Law) -> Law:
    """All but the first token."""
    tail: Law = law.sum(axis=0)
    return tail


def first(law: Law) -> Law:
    """The first token."""
    head: Law = law.sum(axis=(1, 2))
    return head
