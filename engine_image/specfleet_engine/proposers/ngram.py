"""The n-gram proposer: what followed the same words earlier in this text will follow again.

It needs no model and costs one pass over the tokens of a request, in numpy, so 8,000 tokens take
microseconds.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from specfleet_engine.cache import FeatureCache
from specfleet_engine.proposers.proposer import Draft, Needs
from specfleet_engine.sequence import Sequence, Tokens

__all__ = ["NgramProposer"]


@dataclass(frozen=True, slots=True)
class NgramProposer:
    """Look-up with matches of ``max_match`` down to ``min_match`` tokens."""

    min_match: int
    max_match: int
    method: ClassVar[str] = "ngram"
    needs: ClassVar[Needs] = Needs()
    weight_bytes: ClassVar[int] = 0
    bytes_per_token: ClassVar[int] = 0
    draws: ClassVar[bool] = False
    reach: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if not 1 <= self.min_match <= self.max_match:
            raise ValueError(
                f"n-gram match must be 1 <= min <= max, got {self.min_match} and {self.max_match}"
            )

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        """Nothing: the tokens of a sequence are all that is read."""

    def propose(self, sequences: tuple[Sequence, ...], depths: tuple[int, ...]) -> list[Draft]:
        """Look every sequence up in its own text."""
        return [
            Draft(self.look_up(sequence.tokens, depth))
            for sequence, depth in zip(sequences, depths, strict=True)
        ]

    def observe(self, sequences: tuple[Sequence, ...]) -> None:
        """Nothing: there is no state between steps."""

    def forget(self, sequence_id: str) -> None:
        """Nothing is kept."""

    def look_up(self, tokens: Tokens, depth: int) -> Tokens:
        """Draft up to ``depth`` tokens that may follow ``tokens``; none if their end was never seen before.

        The longest match wins. Of equally long ones it is the latest that still has ``depth`` tokens after
        it: on a loop, the very latest match has a single token after it and would draft only that one.
        """
        ends = self._longest_match_ends(tokens) if depth > 0 else tokens[:0]
        if not len(ends):
            return tokens[:0]
        roomy = ends[ends + depth < len(tokens)]
        # `ends` rises, so the first one has the most tokens after it.
        end = int(roomy[-1]) if len(roomy) else int(ends[0])
        return tokens[end + 1 : end + 1 + depth]

    def _longest_match_ends(self, tokens: Tokens) -> Tokens:
        """Where the longest earlier copies of the last tokens end, in rising order."""
        last = len(tokens) - 1
        ends = np.flatnonzero(tokens[:last] == tokens[last])
        best = ends[:0]
        for length in range(1, min(self.max_match, last) + 1):
            if length > 1:
                ends = ends[ends >= length - 1]
                ends = ends[tokens[ends - (length - 1)] == tokens[last - (length - 1)]]
            if not len(ends):
                break
            if length >= self.min_match:
                best = ends
        return best
