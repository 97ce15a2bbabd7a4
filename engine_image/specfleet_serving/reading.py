"""From a body to a request that can be served, or to a refusal that names the field.

A field that this server knows and cannot honour is refused with its name unless it has the value that changes
nothing; an unknown field is refused too.
"""

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from specfleet_serving.core import Limits
from specfleet_serving.errors import InvalidRequest
from specfleet_serving.openai import ChatRequest, CompletionRequest
from specfleet_serving.unsupported import without_neutral

DEFAULT_COMPLETION_TOKENS = 16

Model = TypeVar("Model", bound=BaseModel)


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
    if not prompt_tokens:
        # A chat template may write nothing, and a normaliser may leave nothing of a text.
        raise InvalidRequest("the prompt has no tokens", "prompt")
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
        # Decoded here: json itself lets halves of surrogate pairs and other encodings than UTF-8 through.
        fields = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("the body is not valid JSON") from error
    if b"\\ud" in body.lower():
        _check_is_text(fields)
    if not isinstance(fields, dict):
        raise InvalidRequest("the body must be a JSON object")
    return without_neutral(fields)


def _check_is_text(fields: object) -> None:
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest("the body has a string with half a surrogate pair, which is no text") from error
    except RecursionError as error:
        raise InvalidRequest("the body is nested too deeply") from error


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
        # A rule about several fields has no place: its text begins with the one to change.
        param = place[0] if place else text.split()[0]
        raise InvalidRequest(f"{'.'.join(place) or 'request'}: {text}", param) from error
