"""The OpenAPI document of the HTTP side, served at ``/openapi.json``.

What a request may say comes from the models that read it; the answers are described here.
"""

from typing import Any

from pydantic.json_schema import models_json_schema

from specfleet_serving.openai import ChatRequest, CompletionRequest

Schema = dict[str, Any]

_REFUSALS = {
    400: "The request is wrong, or asks for what this engine does not support; `param` names the field",
    404: "Another model is served here",
    413: "The body is too large",
    429: "As many requests wait as may wait",
    500: "The engine lost this request",
    503: "This replica is starting or stopping",
}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_COUNTS = _listed(_COUNT)
_FINISH = {"enum": ["stop", "length"]}
_USAGE = _object(prompt_tokens=_COUNT, completion_tokens=_COUNT, total_tokens=_COUNT)
_ERROR = _object(
    error=_object(message=_TEXT, type=_TEXT, param=_nullable(_TEXT), code=_nullable(_TEXT)),
)
_TOKEN = _object(token=_TEXT, logprob=_NUMBER, bytes=_COUNTS)
_CHAT_LOGPROBS = _object(
    content=_listed({"allOf": [_TOKEN, _object(top_logprobs=_listed(_TOKEN))]}), refusal={"type": "null"}
)
_COMPLETION_LOGPROBS = _object(
    tokens=_listed(_TEXT),
    token_logprobs=_listed(_NUMBER),
    top_logprobs=_listed({"type": "object", "additionalProperties": _NUMBER}),
    text_offset=_COUNTS,
)
_MESSAGE = _object(role={"const": "assistant"}, content=_TEXT)


def _answer(kind: str, logprobs: Schema, **content: Schema) -> Schema:
    choice = _object(index=_COUNT, logprobs=_nullable(logprobs), finish_reason=_FINISH, **content)
    choice["properties"] |= {"token_ids": _COUNTS, "prompt_token_ids": _COUNTS}
    answer = _object(
        id=_TEXT, object={"const": kind}, created=_COUNT, model=_TEXT, choices=_listed(choice), usage=_USAGE
    )
    answer["properties"]["metrics"] = _object(speculative_decoding=_nullable({"type": "object"}))
    return answer


def document(version: str) -> Schema:
    """Write the whole document."""
    reference = "#/components/schemas/{model}"
    requests, definitions = models_json_schema(
        [(CompletionRequest, "validation"), (ChatRequest, "validation")], ref_template=reference
    )
    completion, chat = (requests[model, "validation"] for model in (CompletionRequest, ChatRequest))
    return {
        "openapi": "3.1.0",
        "info": {"title": "specfleet engine", "version": version},
        "components": {"schemas": definitions["$defs"] | {"Error": _ERROR}},
        "paths": {
            "/v1/completions": _post(
                "Continue a text",
                completion,
                _answer("text_completion", _COMPLETION_LOGPROBS, text=_TEXT),
            ),
            "/v1/chat/completions": _post(
                "Answer a conversation",
                chat,
                _answer("chat.completion", _CHAT_LOGPROBS, message=_MESSAGE),
            ),
            "/v1/models": _get(
                "The served model", "application/json", _object(data=_listed(_object(id=_TEXT)))
            ),
            "/v1/speculation": _get(
                "Method, schedule in force, counters",
                "application/json",
                _object(
                    method=_TEXT,
                    maxDepth=_COUNT,
                    depth=_COUNT,
                    schedule={"type": "object"},
                    counters={"type": "object"},
                ),
            ),
            "/version": _get("The software", "application/json", _object(version=_TEXT)),
            "/openapi.json": _get("This document", "application/json", {"type": "object"}),
            "/metrics": _get("Metrics in Prometheus' text format", "text/plain", _TEXT),
            "/health": _probe("Whether a restart would not help"),
            "/ready": _probe("Whether new requests are welcome"),
        },
    }


def _post(summary: str, body: Schema, answer: Schema) -> Schema:
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    answers: Schema = {
        "200": {
            "description": "The answer; with `stream: true` as events of chunks, the last one `[DONE]`",
            "content": {"application/json": {"schema": answer}, "text/event-stream": {"schema": _TEXT}},
        }
    }
    answers |= {str(code): {"description": text, "content": refused} for code, text in _REFUSALS.items()}
    request = {"required": True, "content": {"application/json": {"schema": body}}}
    return {"post": {"summary": summary, "requestBody": request, "responses": answers}}


def _get(summary: str, kind: str, answer: Schema) -> Schema:
    content = {kind: {"schema": answer}}
    return {"get": {"summary": summary, "responses": {"200": {"description": summary, "content": content}}}}


def _probe(question: str) -> Schema:
    answers = {"200": {"description": "Yes"}, "503": {"description": "No"}}
    return {"get": {"summary": question, "responses": answers}}
