"""Text and tokens, for the serving side.

Uses the tokenizer's backend directly: the wrapper of transformers changes the backend's settings on each
call, which fails when the HTTP side encodes while the loop decodes.
"""

import re
from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError
from transformers.convert_slow_tokenizer import bytes_to_unicode

__all__ = ["EngineTokenizer"]

_BYTES: dict[str, int] = {
    character: byte
    for byte, character in bytes_to_unicode().items()  # type: ignore[no-untyped-call]
}
# What SentencePiece calls a byte that is no piece of its own.
_BYTE_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")


class EngineTokenizer:
    """The `Tokenizer` of `specfleet_serving` over a fast tokenizer of transformers."""

    def __init__(self, tokenizer: Any, eos_ids: frozenset[int], vocabulary_size: int) -> None:
        self.eos_ids = eos_ids
        self.vocabulary_size = vocabulary_size
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._added = frozenset(self._backend.get_added_tokens_decoder())
        self._byte_level = b'"ByteLevel"' in self._backend.decoder.__getstate__()

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token, special ones included, and its id."""
        known: dict[str, int] = self._backend.get_vocab(with_added_tokens=True)
        return known

    def encode(self, text: str) -> list[int]:
        """Tokens of ``text``, with the special tokens that the model wants around a text."""
        ids: list[int] = self._backend.encode(text).ids
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Text without special tokens. An unfinished UTF-8 character at the end shows as U+FFFD."""
        text: str = self._backend.decode(list(tokens), skip_special_tokens=True)
        return text

    def token_bytes(self, token: int) -> bytes:
        """What a token alone stands for: maybe a part of a character, or a special token's name.

        Empty for a row of the vocabulary that only pads it.
        """
        piece: str | None = self._backend.id_to_token(token)
        if piece is None:
            return b""
        if token in self._added:
            return piece.encode()
        if self._byte_level:
            return bytes(_BYTES[character] for character in piece)
        if byte := _BYTE_FALLBACK.fullmatch(piece):
            return bytes([int(byte[1], 16)])
        return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()

    def chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Tokens of a conversation, up to where the assistant's turn begins.

        Raises ValueError if the model has no chat template, or if its template refuses the messages.
        """
        if not self._tokenizer.chat_template:
            raise ValueError("this model has no chat template: use /v1/completions")
        text = self._render(messages)
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def _render(self, messages: Sequence[dict[str, str]]) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, tokenize=False
            )
        # Templates refuse by raising jinja2.TemplateError, and break on odd roles with TypeError.
        except (TemplateError, TypeError) as error:
            raise ValueError(f"the model's chat template refuses these messages: {error}") from error
        return text
