"""What a request changes in the target's logits at any temperature: bias, bans, penalties.

In vLLM's order: ``logit_bias`` is added; ``min_tokens`` bans the tokens that would end the answer; then
``repetition_penalty`` divides or multiplies what the prompt or the output has, and ``frequency_penalty`` and
``presence_penalty`` are subtracted from what the output has. The line that judges draft j counts the drafts
before it as output (reference: engine-building, exactness rule 4). All edits are sparse: a line of logits has
many thousand entries, and a request touches those that it has seen.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from specfleet_engine.batch import Rows
from specfleet_engine.sequence import Tokens

__all__ = ["EDIT_BYTES", "adjust", "upload"]

# What an edit takes at most until it is made: its place, its two values and the logit before and after, and
# the first two once more while the edits of a step are joined.
EDIT_BYTES = 100

Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Edit:
    """One kind of edit to some entries: ``lines`` and ``tokens`` name them, pair by pair."""

    lines: Tokens
    tokens: Tokens
    values: Numbers


def adjust(logits: torch.Tensor, rows: tuple[Rows, ...]) -> torch.Tensor:
    """Give the adjusted logits; ``logits`` [lines, vocabulary] is left alone, or given if nothing changes.

    Lines lie as in `verify`: one for each draft of a sequence, and one more.
    """
    biases, bans, penalties = (_joined(kind(rows)) for kind in (_biases, _bans, _penalties))
    if not (biases or bans or penalties):
        return logits
    # Log-probabilities are taken from the original (vllm-project/vllm#30846).
    logits = logits.clone()
    if biases:
        place, values = _uploaded(biases, logits.device)
        logits.index_put_(place, values, accumulate=True)
    if bans:
        place, values = _uploaded(bans, logits.device)
        logits.index_put_(place, values)
    if penalties:
        place, values = _uploaded(penalties, logits.device)
        factor, offset = values.unbind(dim=-1)
        before = logits[place]
        logits.index_put_(place, torch.where(before > 0, before / factor, before * factor) - offset)
    return logits


def upload(array: npt.NDArray[np.generic], device: torch.device) -> torch.Tensor:
    """Copy to the device without waiting for what it computes."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def _uploaded(edit: _Edit, device: torch.device) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    lines, tokens = upload(np.stack([edit.lines, edit.tokens]), device)
    return (lines, tokens), upload(edit.values, device)


def _joined(edits: Iterable[_Edit]) -> _Edit | None:
    several = list(edits)
    if not several:
        return None
    return _Edit(
        np.concatenate([edit.lines for edit in several]),
        np.concatenate([edit.tokens for edit in several]),
        np.concatenate([edit.values for edit in several]),
    )


def _placed(rows: tuple[Rows, ...]) -> Iterator[tuple[int, Rows]]:
    """Each sequence's rows with the number of its first line."""
    first = 0
    for row in rows:
        yield first, row
        first += row.drafts + 1


def _on_each(lines: range, tokens: Tokens, values: Numbers) -> _Edit:
    return _Edit(np.repeat(lines, len(tokens)), np.tile(tokens, len(lines)), np.tile(values, len(lines)))


def _biases(rows: tuple[Rows, ...]) -> Iterator[_Edit]:
    for first, row in _placed(rows):
        if bias := row.sequence.sampling.logit_bias:
            tokens = np.array([token for token, _ in bias], dtype=np.int64)
            values = np.array([value for _, value in bias], dtype=np.float32)
            yield _on_each(range(first, first + row.drafts + 1), tokens, values)


def _bans(rows: tuple[Rows, ...]) -> Iterator[_Edit]:
    for first, row in _placed(rows):
        sampling = row.sequence.sampling
        missing = sampling.min_tokens - (len(row.sequence) - row.sequence.prompt_length)
        if missing > 0 and sampling.ends:
            ends = np.array(sorted(sampling.ends), dtype=np.int64)
            lines = range(first, first + min(missing, row.drafts + 1))
            yield _on_each(lines, ends, np.full(len(ends), -np.inf, dtype=np.float32))


def _penalties(rows: tuple[Rows, ...]) -> Iterator[_Edit]:
    for first, row in _placed(rows):
        sampling = row.sequence.sampling
        repetition, frequency = sampling.repetition_penalty, sampling.frequency_penalty
        presence = sampling.presence_penalty
        if repetition == 1 and not frequency and not presence:
            continue
        tokens, counts, seen = _census(row)
        factor = np.where(seen, repetition, 1.0)
        offset = frequency * counts + presence * (counts > 0)
        yield _Edit(
            np.repeat(np.arange(first, first + len(counts)), len(tokens)),
            np.tile(tokens, len(counts)),
            np.stack([factor.ravel(), offset.ravel()], axis=-1).astype(np.float32),
        )


def _census(row: Rows) -> tuple[Tokens, Tokens, npt.NDArray[np.bool_]]:
    """The distinct tokens of a sequence and its drafts; for each line how often the output has each; and
    whether prompt or output has it at all."""
    sequence = row.sequence
    drafts = row.tokens[len(row.tokens) - row.drafts :]
    tokens, places = np.unique(np.concatenate([sequence.tokens, drafts]), return_inverse=True)
    prompt, output = places[: sequence.prompt_length], places[sequence.prompt_length : len(sequence)]
    counts = np.tile(np.bincount(output, minlength=len(tokens)), (row.drafts + 1, 1))
    for line, place in enumerate(places[len(sequence) :], start=1):
        counts[line:, place] += 1
    in_prompt = np.zeros(len(tokens), dtype=np.bool_)
    in_prompt[prompt] = True
    return tokens, counts, in_prompt | (counts > 0)
