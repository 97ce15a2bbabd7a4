"""Requests in OpenAI's shape: the fields, their bounds, and what they mean to a core.

An accepted field has an effect. `reading` refuses everything else.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from specfleet_serving.core import Sampling

MOST_STOPS = 16
LONGEST_STOP = 256
MOST_BIASES = 1024
LONGEST_TOKEN_ID = 9
# OpenAI's own limit.
MOST_CHOICES = 128
# vLLM's default limit.
MOST_LOGPROBS = 20


class StreamOptions(BaseModel):
    """What a stream carries beside its text."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    include_usage: bool = False
    continuous_usage_stats: bool = False


class Common(BaseModel):
    """What both routes understand. The fields that OpenAI does not have are vLLM's, with its meanings."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    model: str
    max_tokens: int | None = Field(default=None, ge=1)
    min_tokens: int = Field(default=0, ge=0)
    temperature: float = Field(default=1.0, ge=0.0, le=2.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=-1, description="0 and -1: all tokens")
    min_p: float = Field(default=0.0, ge=0.0, le=1.0)
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    repetition_penalty: float = Field(default=1.0, ge=0.01, le=100.0)
    logit_bias: dict[str, float] = Field(
        default_factory=dict, max_length=MOST_BIASES, description="token id to bias, -100 to 100"
    )
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    n: int = Field(default=1, ge=1, le=MOST_CHOICES)
    best_of: int | None = Field(default=None, ge=1, description="must equal n")
    stop: list[str] = Field(default_factory=list, max_length=MOST_STOPS)
    stop_token_ids: list[int] = Field(default_factory=list, max_length=MOST_STOPS)
    ignore_eos: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False
    user: str | None = Field(default=None, description="names the end user; changes nothing")

    @field_validator("stop", mode="before", json_schema_input_type=str | list[str])
    @classmethod
    def _one_stop_is_a_list(cls, stop: object) -> object:
        return [stop] if isinstance(stop, str) else stop

    @field_validator("stop")
    @classmethod
    def _stops_are_usable(cls, stop: list[str]) -> list[str]:
        if any(not 1 <= len(one) <= LONGEST_STOP for one in stop):
            raise ValueError(f"a stop string has 1 to {LONGEST_STOP} characters")
        return stop

    @field_validator("logit_bias")
    @classmethod
    def _biases_are_usable(cls, biases: dict[str, float]) -> dict[str, float]:
        for token, bias in biases.items():
            if not (token.isascii() and token.isdecimal() and len(token) <= LONGEST_TOKEN_ID):
                raise ValueError(f"{token!a} is not a token id")
            if not -100.0 <= bias <= 100.0:
                raise ValueError(f"the bias of token {token} must be within -100 and 100, got {bias}")
        return biases

    @model_validator(mode="after")
    def _fields_agree(self) -> "Common":
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream: true")
        if self.best_of not in (None, self.n):
            raise ValueError(f"best_of must equal n, got {self.best_of} and {self.n}")
        return self

    @property
    def token_limit(self) -> int | None:
        """How many tokens the caller asked for; None: it did not say."""
        return self.max_tokens

    @property
    def options(self) -> StreamOptions:
        """The stream's options, or the defaults."""
        return self.stream_options or StreamOptions()

    @property
    def wanted_logprobs(self) -> int | None:
        """How many of the likeliest tokens to show beside each token's own log-probability; None: nothing."""
        raise NotImplementedError

    @property
    def biases(self) -> tuple[tuple[int, float], ...]:
        """Give ``logit_bias`` by token id."""
        return tuple((int(token), bias) for token, bias in self.logit_bias.items())

    def sampling(self, max_tokens: int, eos_ids: frozenset[int]) -> Sampling:
        """Say how a core chooses the tokens of the first choice, for a model that ends with ``eos_ids``."""
        return Sampling(
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=max(self.top_k, 0),
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            logit_bias=self.biases,
            seed=self.seed,
            stop=tuple(self.stop),
            ends=frozenset(self.stop_token_ids) | (frozenset() if self.ignore_eos else eos_ids),
            min_tokens=self.min_tokens,
            logprobs=self.wanted_logprobs,
        )


# As a list it may also hold the one text, or the one list of token ids.
Prompt = (
    Annotated[str, Field(min_length=1)]
    | Annotated[list[int], Field(min_length=1)]
    | Annotated[list[str], Field(min_length=1, max_length=1)]
)


class CompletionRequest(Common):
    """``POST /v1/completions``. The prompt is one text or one list of token ids."""

    prompt: str | tuple[int, ...]
    logprobs: int | None = Field(default=None, ge=0, le=MOST_LOGPROBS)

    @field_validator("logprobs", mode="before")
    @classmethod
    def _false_is_none(cls, logprobs: object) -> object:
        return None if logprobs is False else logprobs

    @property
    def wanted_logprobs(self) -> int | None:
        """How many of the likeliest tokens to show beside each token's own log-probability; None: nothing."""
        return self.logprobs

    @field_validator("prompt", mode="plain", json_schema_input_type=Prompt)
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

    @field_validator("content", mode="before", json_schema_input_type=str | list[TextPart])
    @classmethod
    def _text_is_one_part(cls, content: object) -> object:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    def plain(self) -> dict[str, str]:
        """Give the turn as a chat template wants it."""
        return {"role": self.role, "content": "".join(part.text for part in self.content)}


class ChatRequest(Common):
    """``POST /v1/chat/completions``."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=MOST_LOGPROBS, description="needs logprobs: true")

    @model_validator(mode="after")
    def _chat_fields_agree(self) -> "ChatRequest":
        both = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(both) > 1:
            raise ValueError("max_tokens and max_completion_tokens differ: send one of them")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self

    @property
    def wanted_logprobs(self) -> int | None:
        """How many of the likeliest tokens to show beside each token's own log-probability; None: nothing."""
        return self.top_logprobs if self.logprobs else None

    @property
    def token_limit(self) -> int | None:
        """How many tokens the caller asked for; None: it did not say."""
        return self.max_completion_tokens or self.max_tokens
