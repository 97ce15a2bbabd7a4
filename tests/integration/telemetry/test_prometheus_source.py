"""The adapter against a local HTTP server that plays Prometheus, well-behaved and not."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from specfleet.api.configuration import MetricsSourceConfig
from specfleet.telemetry import errors
from specfleet.telemetry.prometheus import PrometheusSource

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ONE_SERIES = {"metric": {"__name__": "up", "pod": "a"}, "values": [[100.5, "1"], [115.5, "2"]]}


def an_answer(result_type: str = "matrix", result: Any = (), **more: Any) -> web.Response:
    body = {"status": "success", "data": {"resultType": result_type, "result": list(result)}, **more}
    return web.Response(text=json.dumps(body), content_type="application/json")


@asynccontextmanager
async def a_source(handler: Handler, **options: Any) -> AsyncIterator[PrometheusSource]:
    max_bytes = options.pop("max_bytes", 2**20)
    clock = options.pop("clock", lambda: 0.0)
    tls = options.pop("tls", None)
    application = web.Application()
    application.router.add_get("/prefix/api/v1/query", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    scheme = "https" if tls else "http"
    config = MetricsSourceConfig(url=f"{scheme}://127.0.0.1:{port}/prefix/", **options)
    source = PrometheusSource(config, max_bytes=max_bytes, clock=clock)
    try:
        yield source
    finally:
        await source.close()
        await runner.cleanup()


def answering(response: Callable[[], web.StreamResponse]) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return response()

    return handler


async def test_a_matrix_comes_back_as_series_with_their_own_stamps() -> None:
    async with a_source(answering(lambda: an_answer(result=[ONE_SERIES]))) as source:
        (series,) = await source.query("up[45s]", at=120.0)

    assert series.labels == {"__name__": "up", "pod": "a"}
    assert series.samples == ((100.5, 1.0), (115.5, 2.0))


async def test_p18_values_are_strings_and_may_be_no_numbers() -> None:
    item = {"metric": {"__name__": "x"}, "values": [[1, "NaN"], [2, "+Inf"], [3, "-Inf"], [4, "1e3"]]}

    async with a_source(answering(lambda: an_answer(result=[item]))) as source:
        (series,) = await source.query("x[45s]", at=5.0)

    values = [value for _, value in series.samples]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, 1000.0]


async def test_p18_an_empty_matrix_is_no_series_and_no_error() -> None:
    async with a_source(answering(an_answer)) as source:
        assert await source.query("x[45s]", at=5.0) == []


@pytest.mark.parametrize(
    ("response", "error"),
    [
        pytest.param(lambda: an_answer("vector"), errors.AnswerMalformed, id="P18-vector"),
        pytest.param(lambda: an_answer("scalar", [1, "2"]), errors.AnswerMalformed, id="P18-scalar"),
        pytest.param(lambda: an_answer(warnings=["secret"]), errors.AnswerPartial, id="P8-warnings"),
        pytest.param(lambda: web.Response(status=400, text="secret"), errors.QueryRefused, id="400"),
        pytest.param(lambda: web.Response(status=422, text="secret"), errors.QueryRefused, id="422"),
        pytest.param(lambda: web.Response(status=401, text="secret"), errors.SourceRefused, id="401"),
        pytest.param(lambda: web.Response(status=500, text="secret"), errors.SourceUnavailable, id="500"),
        pytest.param(lambda: web.Response(status=503, text="secret"), errors.SourceUnavailable, id="503"),
        pytest.param(lambda: web.Response(status=404, text="secret"), errors.AnswerMalformed, id="404"),
        pytest.param(lambda: web.Response(text="<html>secret"), errors.AnswerMalformed, id="not-json"),
        pytest.param(
            lambda: web.Response(text='{"status": "success"}'), errors.AnswerMalformed, id="no-data"
        ),
        pytest.param(
            lambda: web.Response(status=302, headers={"Location": "http://169.254.169.254/secret"}),
            errors.AnswerMalformed,
            id="redirect",
        ),
        pytest.param(lambda: web.Response(text="[" * 2**21), errors.AnswerTooLarge, id="huge"),
        pytest.param(
            lambda: an_answer(result=[{"values": [[1, "1"]]}]),
            errors.AnswerMalformed,
            id="no-labels",
        ),
        pytest.param(
            lambda: an_answer(result=[{"metric": {}, "values": [[1, "one"]]}]),
            errors.AnswerMalformed,
            id="P18-no-number",
        ),
    ],
)
async def test_every_other_answer_is_a_named_error_without_address_or_body(
    response: Callable[[], web.Response], error: type[errors.MetricsError]
) -> None:
    async with a_source(answering(response)) as source:
        with pytest.raises(error) as caught:
            await source.query("up[45s]", at=1.0)

    assert "secret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


async def test_a_slow_answer_ends_at_the_deadline() -> None:
    released = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await released.wait()
        return an_answer()

    async with a_source(slow, timeout_seconds=0.5) as source:
        with pytest.raises(errors.SourceTimeout, match=r"within 0\.5 s"):
            await source.query("up[45s]", at=1.0)
        released.set()


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_dripped_body_cannot_outlive_the_deadline(chunked: bool) -> None:
    ended = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if chunked:
            response.enable_chunked_encoding()
        else:
            response.content_length = 1000
        await response.prepare(request)
        for _ in range(900):  # 45 s; each byte arrives well within a socket timeout
            await response.write(b" ")
            await asyncio.sleep(0.05)
        ended.set()
        return response

    async with a_source(drip, timeout_seconds=0.5) as source:
        with pytest.raises(errors.SourceTimeout):
            await source.query("up[45s]", at=1.0)
        assert not ended.is_set()


async def test_a_source_that_is_not_there_is_unavailable() -> None:
    source = PrometheusSource(MetricsSourceConfig(url="http://127.0.0.1:9", timeout_seconds=1))

    with pytest.raises(errors.SourceUnavailable) as caught:
        await source.query("up[45s]", at=1.0)

    assert "127.0.0.1" not in str(caught.value)
    await source.close()


async def test_three_failures_open_the_circuit_and_one_success_closes_it() -> None:
    now = 0.0
    calls = 0
    healthy = False

    async def handler(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return an_answer() if healthy else web.Response(status=503)

    async with a_source(handler, clock=lambda: now) as source:
        for _ in range(5):
            with pytest.raises(errors.SourceUnavailable):
                await source.query("up[45s]", at=1.0)
        assert calls == 3
        now, healthy = 11.0, True
        assert await source.query("up[45s]", at=1.0) == []
        assert await source.query("up[45s]", at=1.0) == []
        assert calls == 5


@pytest.mark.fault("argoproj/argo-rollouts#2298", "kedacore/keda#4962")
async def test_token_tenant_and_parameters_are_sent_and_the_token_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    seen: list[tuple[str | None, str | None, str | None]] = []

    async def handler(request: web.Request) -> web.Response:
        headers = request.headers
        seen.append((headers.get("Authorization"), headers.get("X-Scope-OrgID"), request.query.get("dedup")))
        return an_answer()

    options = {
        "bearer_token_file": str(token),
        "tenant_header": "team",
        "query_parameters": {"dedup": "true"},
    }
    async with a_source(handler, **options) as source:
        await source.query("up[45s]", at=1.0)
        token.write_text("second")
        await source.query("up[45s]", at=1.0)

    assert seen == [("Bearer first", "team", "true"), ("Bearer second", "team", "true")]


@pytest.mark.fault("argoproj/argo-rollouts#2298")
async def test_basic_authentication_comes_from_files(tmp_path: Path) -> None:
    (tmp_path / "user").write_text("u")
    (tmp_path / "password").write_text("p\n")
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return an_answer()

    files = {
        "basic_username_file": str(tmp_path / "user"),
        "basic_password_file": str(tmp_path / "password"),
    }
    async with a_source(handler, **files) as source:
        await source.query("up[45s]", at=1.0)

    assert seen == ["Basic dTpw"]


async def test_a_missing_token_file_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async with a_source(answering(an_answer), bearer_token_file=str(tmp_path / "none")) as source:
        with pytest.raises(errors.SourceRefused, match="bearer token file"):
            await source.query("up[45s]", at=1.0)


async def test_proxy_variables_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    async with a_source(answering(an_answer)) as source:
        assert await source.query("up[45s]", at=1.0) == []
