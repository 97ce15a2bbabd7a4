"""A tokenizer without files: one token for a common word with the space before it, else one for each byte."""

import re
from collections.abc import Sequence

BYTES = 256
END_OF_SEQUENCE = 256
FILLER = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an
they which one you were all her she there would their we him been has when who will no more if out
so up said what its about than into them can only other time new some could these two may first then
do any like my now over such our man me even most made after also did many off before must well back
through years where much your way down should because each just those people how too little state
good very make world still see own work men day get here between both life being under three never
know same last another while us might great go come since against right used take himself few house
use place during without again home around small found thought went say part once high general upon
school every does got united left number course war until always away something fact though water
less public put think almost hand enough far look head yet set better told nothing night end why
called find going later form system line small order point given group
"""
VOCABULARY = tuple(dict.fromkeys(FILLER.split()))
FIRST_WORD = 257

_PIECE = re.compile(r" [a-z]+|[^ ]+| +")
_IDS = {f" {word}": FIRST_WORD + index for index, word in enumerate(VOCABULARY)}


class SimulatedTokenizer:
    """Text to tokens and back, without loss."""

    eos_ids = frozenset({END_OF_SEQUENCE})
    vocabulary_size = FIRST_WORD + len(VOCABULARY)

    def encode(self, text: str) -> list[int]:
        """Give the tokens of a text."""
        tokens: list[int] = []
        for piece in _PIECE.findall(text):
            word = _IDS.get(piece)
            tokens.extend(piece.encode() if word is None else (word,))
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Give the text of tokens; the end-of-sequence token has none."""
        return b"".join(_bytes_of(token) for token in tokens).decode(errors="replace")

    def token_bytes(self, token: int) -> bytes:
        """Give what a token alone stands for."""
        return _bytes_of(token)

    def chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Write a conversation as lines, with the assistant's turn open at the end."""
        turns = "".join(f"{message['role']}: {message['content']}\n" for message in messages)
        return self.encode(f"{turns}assistant:")


def _bytes_of(token: int) -> bytes:
    if token < BYTES:
        return bytes((token,))
    if token == END_OF_SEQUENCE:
        return b""
    return f" {VOCABULARY[token - FIRST_WORD]}".encode()
