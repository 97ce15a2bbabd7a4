"""A tokenizer for tests: one token for each byte, and an end-of-sequence token."""

from collections.abc import Sequence

EOS = 256


class ByteTokenizer:
    """Implements `specfleet_serving.core.Tokenizer`."""

    eos_ids = frozenset({EOS})
    vocabulary_size = 257

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token for token in tokens if token != EOS).decode(errors="replace")

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < EOS else b"<eos>"

    def chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        raise NotImplementedError
