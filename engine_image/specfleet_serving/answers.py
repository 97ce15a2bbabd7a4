"""Answers in OpenAI's shape: whole ones and the chunks of a stream. Values in, dicts out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specfleet_serving.active import Output
from specfleet_serving.core import Tokenizer
from specfleet_serving.draft_summary import DraftSummary
from specfleet_serving.logprobs import LogprobWriter
from specfleet_serving.openai import Common


@dataclass(slots=True)
class _Choice:
    """One of an answer's texts in the making."""

    index: int
    logprobs: LogprobWriter | None
    opened: bool = False
    outputs: list[Output] = field(default_factory=list)


class Answer:
    """One answer in the making, with a choice for each of ``request_ids``, which the core knows them by.

    ``chat`` picks between the two shapes. ``drafts`` sums them up, if the server tells them.
    """

    def __init__(
        self,
        request: Common,
        request_ids: Sequence[str],
        prompt: tuple[int, ...],
        chat: bool,
        tokenizer: Tokenizer,
        drafts: DraftSummary | None,
    ) -> None:
        self._id = request_ids[0]
        self._model = request.model
        self._chat = chat
        self._prompt = prompt
        self._with_token_ids = request.return_token_ids
        self._created = int(time.time())
        self._completion_tokens = 0
        self._drafts = drafts
        with_logprobs = request.wanted_logprobs is not None
        self._choices = {
            request_id: _Choice(index, LogprobWriter(tokenizer, chat, prompt) if with_logprobs else None)
            for index, request_id in enumerate(request_ids)
        }

    def usage(self) -> dict[str, int]:
        """Count what was read and given so far. A prompt counts once, however many choices it has."""
        return {
            "prompt_tokens": len(self._prompt),
            "completion_tokens": self._completion_tokens,
            "total_tokens": len(self._prompt) + self._completion_tokens,
        }

    def whole(self, outputs: Sequence[Output]) -> dict[str, Any]:
        """Write the answer of a request that did not stream."""
        for output in outputs:
            self._count(output)
            self._choices[output.request_id].outputs.append(output)
        choices = [self._whole_choice(choice) for choice in self._choices.values()]
        return self._frame("chat.completion" if self._chat else "text_completion", choices) | {
            "usage": self.usage(),
            **self._metrics(),
        }

    def chunk(self, output: Output) -> dict[str, Any] | None:
        """Write the chunk of a stream for one output. None: there is nothing to show yet."""
        self._count(output)
        choice = self._choices[output.request_id]
        shows_tokens = self._with_token_ids or choice.logprobs
        if not output.text and output.finish is None and not shows_tokens:
            return None
        body = self._body(choice, [output])
        body |= {"delta": self._delta(choice, output.text)} if self._chat else {"text": output.text}
        if self._with_token_ids:
            body["token_ids"] = list(output.tokens)
            if not choice.opened:
                body["prompt_token_ids"] = list(self._prompt)
        choice.opened = True
        return self._frame(self._stream_kind, [body])

    def usage_chunk(self) -> dict[str, Any]:
        """Write the last chunk of a stream that was asked to include usage."""
        return self._frame(self._stream_kind, []) | {"usage": self.usage(), **self._metrics()}

    def _count(self, output: Output) -> None:
        self._completion_tokens += len(output.tokens)
        if self._drafts:
            self._drafts.count(output)

    def _whole_choice(self, choice: _Choice) -> dict[str, Any]:
        text = "".join(output.text for output in choice.outputs)
        body = self._body(choice, choice.outputs)
        body |= {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        if self._with_token_ids:
            tokens = [token for output in choice.outputs for token in output.tokens]
            body |= {"token_ids": tokens, "prompt_token_ids": list(self._prompt)}
        return body

    def _body(self, choice: _Choice, outputs: Sequence[Output]) -> dict[str, Any]:
        logprobs = None
        if choice.logprobs:
            logprobs = choice.logprobs.write(
                [token for output in outputs for token in output.tokens],
                [one for output in outputs for one in output.logprobs],
            )
        return {"index": choice.index, "logprobs": logprobs, "finish_reason": outputs[-1].finish}

    def _metrics(self) -> dict[str, Any]:
        return {"metrics": {"speculative_decoding": self._drafts.figures()}} if self._drafts else {}

    @property
    def _stream_kind(self) -> str:
        return "chat.completion.chunk" if self._chat else "text_completion"

    def _delta(self, choice: _Choice, text: str) -> dict[str, str]:
        return {"content": text} if choice.opened else {"role": "assistant", "content": text}

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }
