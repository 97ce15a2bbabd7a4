"""What the HTTP side refuses, in OpenAI's shape.

ApiError
 ├─ InvalidRequest  400: the request itself is wrong; ``param`` names the field
 ├─ UnknownModel    404
 ├─ TooLarge        413: the body
 ├─ QueueFull       429: try again later
 ├─ Draining        503: try another replica
 └─ EngineFailed    500: this request was lost, others go on
"""

from typing import Any


class ApiError(Exception):
    """A refusal with its HTTP status."""

    status = 500
    kind = "server_error"
    code: str | None = None
    retry_after_seconds: int | None = None

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        """Give the answer's body."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


class InvalidRequest(ApiError):
    """The request cannot be served as it is written."""

    status = 400
    kind = "invalid_request_error"


class UnknownModel(ApiError):
    """The request names a model that is not served here."""

    status = 404
    kind = "invalid_request_error"
    code = "model_not_found"


class TooLarge(ApiError):
    """The body passes the limit."""

    status = 413
    kind = "invalid_request_error"
    code = "body_too_large"


class QueueFull(ApiError):
    """As many requests wait as may wait."""

    status = 429
    kind = "rate_limit_error"
    code = "queue_full"
    retry_after_seconds = 1


class Draining(ApiError):
    """This replica is about to stop, or has not begun to serve."""

    status = 503
    kind = "service_unavailable"
    code = "not_serving"
    retry_after_seconds = 2


class EngineFailed(ApiError):
    """A step failed and took this request with it."""

    code = "engine_error"
