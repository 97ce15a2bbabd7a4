"""The HTTP side: routes, bodies, and refusals in OpenAI's shape. `service` decides what is admitted."""

from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from specfleet_serving.errors import ApiError, TooLarge
from specfleet_serving.openapi import document
from specfleet_serving.reply import error_response, json_response
from specfleet_serving.service import Service


def build_app(service: Service) -> FastAPI:
    """Build the routes around a service."""
    app = FastAPI(title="specfleet", openapi_url=None)
    _add_refusals(app)
    _add_probes(app, service)

    @app.get("/v1/models")
    async def models() -> Response:
        model = {"id": service.settings.served_model_name, "object": "model", "owned_by": "specfleet"}
        return json_response({"object": "list", "data": [model | {"created": 0}]})

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await service.complete(await _body(request, service.settings.max_body_bytes))

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        return await service.chat(await _body(request, service.settings.max_body_bytes))

    @app.get("/v1/speculation")
    async def speculation() -> Response:
        return json_response(service.speculation())

    return app


def _add_probes(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200 if service.healthy else 503)

    @app.get("/ready")
    async def ready() -> Response:
        return Response(status_code=200 if service.ready else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/version")
    async def software() -> Response:
        return json_response({"version": _version()})

    @app.get("/openapi.json")
    async def openapi() -> Response:
        return json_response(document(_version()))


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def refused(_: Request, error: ApiError) -> Response:
        return error_response(error)

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> Response:
        return error_response(ApiError("the server failed at this request; its log says why"))

    @app.exception_handler(HTTPException)
    async def no_such_route(request: Request, error: HTTPException) -> Response:
        refusal = ApiError(f"{request.method} {request.url.path}: {error.detail}")
        refusal.status, refusal.kind = error.status_code, "invalid_request_error"
        return error_response(refusal)


async def _body(request: Request, limit: int) -> bytes:
    too_large = TooLarge(f"the body is larger than {limit} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise too_large
    return bytes(body)


def _version() -> str:
    try:
        return version("specfleet")
    except PackageNotFoundError:
        return "unknown"
