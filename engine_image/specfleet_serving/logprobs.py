"""Log-probabilities in OpenAI's two shapes: lists side by side for completions, an entry a token for chat."""

from collections.abc import Sequence
from typing import Any

from specfleet_serving.core import Tokenizer, TokenLogprob
from specfleet_serving.text import Detokeniser


class LogprobWriter:
    """Writes the log-probabilities of one choice, run after run. A completion goes on from ``prompt``."""

    def __init__(self, tokenizer: Tokenizer, chat: bool, prompt: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._chat = chat
        self._offset = 0
        # Offsets point into the text that this gives: a character may be spread over tokens, special tokens
        # have none, and the first word of a text may lose the space of its token.
        self._detokeniser = Detokeniser(tokenizer, prompt)

    def write(self, tokens: Sequence[int], logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
        """Give the ``logprobs`` of a choice for these tokens."""
        pairs = list(zip(tokens, logprobs, strict=True))
        if self._chat:
            return {"content": [self._entry(*pair) for pair in pairs], "refusal": None}
        return {
            "tokens": [self._name(token) for token in tokens],
            "token_logprobs": [one.logprob for one in logprobs],
            "top_logprobs": [self._likeliest(*pair) for pair in pairs],
            "text_offset": [self._pass(token) for token in tokens],
        }

    def _entry(self, token: int, one: TokenLogprob) -> dict[str, Any]:
        top = [self._described(other, value) for other, value in one.top]
        return self._described(token, one.logprob) | {"top_logprobs": top}

    def _described(self, token: int, logprob: float) -> dict[str, Any]:
        return {
            "token": self._name(token),
            "logprob": logprob,
            "bytes": list(self._tokenizer.token_bytes(token)),
        }

    def _likeliest(self, token: int, one: TokenLogprob) -> dict[str, float]:
        """The likeliest tokens, and the token itself if it is none of them."""
        return {self._name(other): value for other, value in one.top} | {self._name(token): one.logprob}

    def _name(self, token: int) -> str:
        """The token's text; one that is no text by itself is named by its bytes, as OpenAI does."""
        content = self._tokenizer.token_bytes(token)
        try:
            return content.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in content)

    def _pass(self, token: int) -> int:
        """Give where a token's text begins, and move on to its end."""
        begin = self._offset
        self._offset += len(self._detokeniser.push(token))
        return begin
