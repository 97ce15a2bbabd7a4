"""Requests in OpenAI's shape: read, checked, and turned into what a core understands.

An accepted field has an effect. A field that this server knows and cannot honour is refused with its name
unless it has the value that changes nothing; an unknown field is refused too.
"""

import json
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from specfleet_serving.core import Limits, Sampling
from specfleet_serving.errors import InvalidRequest
from specfleet_serving.unsupported import without_neutral

DEFAULT_COMPLETION_TOKENS = 16
MOST_STOP_STRINGS = 16
LONGEST_STOP = 256

Model = TypeVar("Model", bound=BaseModel)


class StreamOptions(BaseModel):
    """What a stream carries beside its text."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Common(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    model: str
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0.0, le=2.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=-1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: list[str] = Field(default_factory=list, max_length=MOST_STOP_STRINGS)
    ignore_eos: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False
    user: str | None = None  # names the end user; has no effect on any answer

    @field_validator("stop", mode="before")
    @classmethod
    def _one_stop_is_a_list(cls, stop: object) -> object:
        return [stop] if isinstance(stop, str) else stop

    @field_validator("stop")
    @classmethod
    def _stops_are_usable(cls, stop: list[str]) -> list[str]:
        if any(not 1 <= len(one) <= LONGEST_STOP for one in stop):
            raise ValueError(f"a stop string has 1 to {LONGEST_STOP} characters")
        return stop

    @model_validator(mode="after")
    def _options_belong_to_a_stream(self) -> "_Common":
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream: true")
        return self

    @property
    def token_limit(self) -> int | None:
        """How many tokens the caller asked for; None: it did not say."""
        return self.max_tokens

    @property
    def options(self) -> StreamOptions:
        """The stream's options, or the defaults."""
        return self.stream_options or StreamOptions()

    def sampling(self, max_tokens: int) -> Sampling:
        """Say how a core chooses the tokens."""
        return Sampling(
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=max(self.top_k, 0),
            seed=self.seed,
            stop=tuple(self.stop),
            ignore_eos=self.ignore_eos,
        )


class CompletionRequest(_Common):
    """``POST /v1/completions``. The prompt is one text or one list of token ids."""

    prompt: str | tuple[int, ...]

    @field_validator("prompt", mode="plain")
    @classmethod
    def _is_one_prompt(cls, prompt: object) -> str | tuple[int, ...]:
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
            if len(prompt) > 1:
                raise ValueError(f"send one prompt a request, got {len(prompt)}")
            prompt = prompt[0]
        if not prompt:
            raise ValueError("must not be empty")
        if isinstance(prompt, str):
            return prompt
        if isinstance(prompt, list) and all(type(token) is int for token in prompt):
            return tuple(prompt)
        raise ValueError("must be a text or a list of token ids")


class TextPart(BaseModel):
    """A part of a message's content; this server knows text only."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: list[TextPart]

    @field_validator("content", mode="before")
    @classmethod
    def _text_is_one_part(cls, content: object) -> object:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    def plain(self) -> dict[str, str]:
        """Give the turn as a chat template wants it."""
        return {"role": self.role, "content": "".join(part.text for part in self.content)}


class ChatRequest(_Common):
    """``POST /v1/chat/completions``."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _limits_agree(self) -> "ChatRequest":
        both = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(both) > 1:
            raise ValueError("max_tokens and max_completion_tokens differ: send one of them")
        return self

    @property
    def token_limit(self) -> int | None:
        """How many tokens the caller asked for; None: it did not say."""
        return self.max_completion_tokens or self.max_tokens


def read_completion(body: bytes) -> CompletionRequest:
    """Read a completion request. Raises InvalidRequest that names the field."""
    return _validated(CompletionRequest, _fields(body))


def read_chat(body: bytes) -> ChatRequest:
    """Read a chat request. Raises InvalidRequest that names the field."""
    fields = _fields(body)
    messages = fields.get("messages")
    if isinstance(messages, list):
        # Clients send answers back as they got them, with fields that are null.
        fields["messages"] = [_without_nulls(turn) if isinstance(turn, dict) else turn for turn in messages]
    return _validated(ChatRequest, fields)


def answer_limit(prompt_tokens: int, asked: int | None, default: int | None, limits: Limits) -> int:
    """Say how many tokens an answer may have. Raises InvalidRequest with the numbers if they do not fit.

    ``asked`` is the caller's own limit, ``default`` the one without it; None: what is left of the context.
    """
    context = min(limits.max_model_len, limits.kv_tokens)
    left = context - prompt_tokens
    if left < 1:
        raise InvalidRequest(
            f"the prompt has {prompt_tokens} tokens; the context of {context} leaves no room",
            "prompt",
        )
    if asked is not None and asked > left:
        raise InvalidRequest(
            f"the prompt has {prompt_tokens} tokens and {asked} more were asked for; "
            f"the context has {context}, so ask for at most {left}",
            "max_tokens",
        )
    return asked or min(default or left, left)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("the body is not valid JSON") from error
    if b"\\ud" in body.lower() and not _is_text(fields):
        raise InvalidRequest("the body has a string with half a surrogate pair, which is no text")
    if not isinstance(fields, dict):
        raise InvalidRequest("the body must be a JSON object")
    return without_neutral(fields)


def _is_text(fields: object) -> bool:
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _validated(model: type[Model], fields: dict[str, Any]) -> Model:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = [str(part) for part in first["loc"]]
        text = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            text = "unknown parameter"
        raise InvalidRequest(
            f"{'.'.join(place) or 'request'}: {text}", place[0] if place else None
        ) from error
