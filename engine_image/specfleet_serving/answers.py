"""Answers in OpenAI's shape: whole ones and the chunks of a stream. Values in, dicts out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specfleet_serving.loop import Output


@dataclass(slots=True)
class Answer:
    """One answer in the making. ``chat`` picks between the two shapes."""

    id: str
    model: str
    chat: bool
    prompt: tuple[int, ...]
    with_token_ids: bool
    created: int = field(default_factory=lambda: int(time.time()))
    completion_tokens: int = 0
    _opened: bool = False

    def usage(self) -> dict[str, int]:
        """Count what was read and given so far."""
        return {
            "prompt_tokens": len(self.prompt),
            "completion_tokens": self.completion_tokens,
            "total_tokens": len(self.prompt) + self.completion_tokens,
        }

    def whole(self, outputs: Sequence[Output]) -> dict[str, Any]:
        """Write the answer of a request that did not stream."""
        text = "".join(output.text for output in outputs)
        tokens = [token for output in outputs for token in output.tokens]
        self.completion_tokens = len(tokens)
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": outputs[-1].finish}
        choice |= {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        if self.with_token_ids:
            choice |= {"token_ids": tokens, "prompt_token_ids": list(self.prompt)}
        return self._frame("chat.completion" if self.chat else "text_completion", [choice]) | {
            "usage": self.usage()
        }

    def chunk(self, output: Output) -> dict[str, Any] | None:
        """Write the chunk of a stream for one output. None: there is nothing to show yet."""
        self.completion_tokens += len(output.tokens)
        if not output.text and output.finish is None and not self.with_token_ids:
            return None
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": output.finish}
        choice |= {"delta": self._delta(output.text)} if self.chat else {"text": output.text}
        if self.with_token_ids:
            choice["token_ids"] = list(output.tokens)
            if not self._opened:
                choice["prompt_token_ids"] = list(self.prompt)
        self._opened = True
        return self._frame(self._stream_kind, [choice])

    def usage_chunk(self) -> dict[str, Any]:
        """Write the last chunk of a stream that was asked to include usage."""
        return self._frame(self._stream_kind, []) | {"usage": self.usage()}

    @property
    def _stream_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _delta(self, text: str) -> dict[str, str]:
        return {"content": text} if self._opened else {"role": "assistant", "content": text}

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }
