"""From tokens to what a user may see: decoding in pieces, and the end of a request.

Tokens come in runs (a step may accept several drafts) and are taken one at a time, so that the earliest of
ending token, stop string and token limit wins. Text, tokens and counts are cut at the same place. Nothing but
the limit ends an answer within its first ``min_tokens`` tokens.
Source: reference/engine-faults.md, rows 8 to 12.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specfleet_serving.core import Sampling, Tokenizer

FinishReason = Literal["stop", "length"]

REPLACEMENT = "\ufffd"
# A character has at most four bytes: a longer run of undecodable tokens will not become text any more.
LONGEST_HELD_TOKENS = 8
# How much of the end of a prompt says how the text goes on: more than one character whose bytes are tokens.
CONTEXT_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """What one run of tokens gave a user. ``tokens`` are the kept ones; ``text`` may lag behind them."""

    tokens: tuple[int, ...]
    text: str
    finish: FinishReason | None


class Detokeniser:
    """Decodes a growing list a window at a time; holds back bytes that are not a whole character yet.

    The text goes on from that of the tokens ``before``, if they end with a whole character.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._window = list(before[-CONTEXT_TOKENS:])  # tokens whose text was given out last, then held ones
        self._given_text = tokenizer.decode(self._window)
        if self._given_text.endswith(REPLACEMENT):
            self._window, self._given_text = [], ""
        self._given = len(self._window)

    def push(self, token: int) -> str:
        """Take one token; give the text that is certain now."""
        self._window.append(token)
        text = self._tokenizer.decode(self._window)
        if text == self._given_text:
            self._window.pop()  # a token without text
            return ""
        held = len(self._window) - self._given
        if text.endswith(REPLACEMENT) and held <= LONGEST_HELD_TOKENS:
            return ""
        return self._give(text)

    def flush(self) -> str:
        """Give what is held back, whole or not: no token will follow."""
        return self._give(self._tokenizer.decode(self._window)) if len(self._window) > self._given else ""

    def _give(self, text: str) -> str:
        delta = text[len(self._given_text) :]
        # What was given before gives the next tokens their context (a leading space, for one).
        self._window = self._window[self._given :]
        self._given = len(self._window)
        self._given_text = self._tokenizer.decode(self._window)
        return delta


class Assembler:
    """The output of one request: decides its end and what text may leave. It goes on from ``before``."""

    def __init__(self, tokenizer: Tokenizer, sampling: Sampling, before: Sequence[int] = ()) -> None:
        self._ends = sampling.ends
        self._stop = sampling.stop
        self._least = sampling.min_tokens
        self._limit = sampling.max_tokens
        self._detokeniser = Detokeniser(tokenizer, before)
        self._held = ""  # not given out: it may be the beginning of a stop string
        self._early = 0  # characters of it that came too early to end the answer
        self.count = 0

    @property
    def remaining(self) -> int:
        """How many tokens the request may still give."""
        return self._limit - self.count

    def push(self, tokens: Sequence[int]) -> Piece:
        """Take a run of tokens; keep those up to the request's end."""
        for index, token in enumerate(tokens, start=1):
            finish = self._take(token)
            if finish is not None:
                text, self._held = self._held, ""
                return Piece(tuple(tokens[:index]), text, finish)
        safe = len(self._held) - self._possible_stop()
        text, self._held = self._held[:safe], self._held[safe:]
        self._early = max(self._early - safe, 0)
        return Piece(tuple(tokens), text, None)

    def _take(self, token: int) -> FinishReason | None:
        self.count += 1
        counts = self.count > self._least
        ends = counts and token in self._ends
        if not ends:
            self._held += self._detokeniser.push(token)
        if ends or self.remaining <= 0:
            self._held += self._detokeniser.flush()
        if not counts:
            self._early = len(self._held)
        found = self._stops() if counts else []
        if found:
            self._held = self._held[: min(found)]
            return "stop"
        if ends:
            return "stop"
        return "length" if self.remaining <= 0 else None

    def _stops(self) -> list[int]:
        """Where stop strings begin in the held text, of those that do not end too early."""
        places = (self._held.find(stop, max(self._early - len(stop) + 1, 0)) for stop in self._stop)
        return [place for place in places if place >= 0]

    def _possible_stop(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = 0
        for stop in self._stop:
            for length in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:length]):
                    longest = length
                    break
        return longest
