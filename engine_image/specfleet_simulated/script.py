"""What the simulated model says, and how well a draft foresees it.

Each token is a function of the prompt, the seed and the position, so a text does not depend on depth, batch
or preemption. Acceptance is a property of the prompt: repetitive text is easy to foresee, free text is not.
"""

import hashlib
import random
from dataclasses import dataclass

from specfleet_serving.core import Request
from specfleet_simulated.tokenizer import END_OF_SEQUENCE, FIRST_WORD, VOCABULARY, SimulatedTokenizer

FULL_STOP = ord(".")
SENTENCE_TOKENS = 12
SHORTEST_ANSWER = 48
LONGEST_ANSWER = 512


def repeated_share(text: str, words: int) -> float:
    """Give the share of a text's runs of ``words`` words that occurred before in it, 0..1.

    That is how often a look-up of the last ``words`` - 1 words finds the word that follows.
    """
    split = text.split()
    runs = [tuple(split[at : at + words]) for at in range(len(split) - words + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Chance that a drafted token is accepted, for prompts without and with nothing but repetition.

    A prompt in between gets a chance in between, by the share of its repeated runs of ``min_match`` + 1
    words.
    """

    free: float
    repetitive: float
    min_match: int

    def chance(self, prompt: str) -> float:
        """Give the chance for one prompt."""
        return self.free + (self.repetitive - self.free) * repeated_share(prompt, self.min_match + 1)


class Script:
    """The text and the draws of one request."""

    def __init__(self, request: Request, tokenizer: SimulatedTokenizer, acceptance: Acceptance) -> None:
        sampling = request.sampling
        prompt = " ".join(map(str, request.prompt))
        if sampling.greedy:
            salt = ""
        elif sampling.seed is not None:
            salt = str(sampling.seed)
        else:
            salt = request.id
        self._key = hashlib.sha256(f"{prompt}|{salt}".encode()).digest()
        self._draws = random.Random(self._key)
        self._chance = acceptance.chance(tokenizer.decode(request.prompt))
        self._ends = sampling.ends
        self._least = sampling.min_tokens
        ends_itself = END_OF_SEQUENCE in sampling.ends
        length = max(self._number(-1, SHORTEST_ANSWER, LONGEST_ANSWER), self._least)
        self._length = length if ends_itself else None

    def token(self, position: int) -> int:
        """Give the token at a position of the answer, from 0. One that would end it too early is replaced."""
        token = self._planned(position)
        while position < self._least and token in self._ends:
            token = FIRST_WORD + (token + 1 - FIRST_WORD) % len(VOCABULARY)
        return token

    def _planned(self, position: int) -> int:
        if position == self._length:
            return END_OF_SEQUENCE
        if position % SENTENCE_TOKENS == SENTENCE_TOKENS - 1:
            return FULL_STOP
        return FIRST_WORD + self._number(position, 0, len(VOCABULARY) - 1)

    def accepted(self, drafted: int) -> int:
        """Draw how many of the drafted tokens are accepted: up to the first that is not."""
        for count in range(drafted):
            if self._draws.random() >= self._chance:
                return count
        return drafted

    def _number(self, position: int, lowest: int, highest: int) -> int:
        digest = hashlib.blake2b(str(position).encode(), key=self._key, digest_size=8).digest()
        return lowest + int.from_bytes(digest) % (highest - lowest + 1)
