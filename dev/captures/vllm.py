"""Capture pages of ``/metrics`` from a real vLLM (CPU build) into the fixtures of tests.

    python -m dev.captures.vllm

Installs that vLLM into the cache (6 GB) and makes the model there: minutes, two cores. What a page shows is
written above it. Series of Python, of the process and of its HTTP server are left out.
"""

import json
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path

from dev.bench.servers import Server, free_port
from dev.bench.vllm_cpu import VERSION, provide_vllm
from dev.models.smollm2 import cache_folder, provide

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "metrics"
CACHE = cache_folder()
MODEL = "smollm2"
REPETITIVE = "one two three four five six seven eight nine ten " * 6
# Stock vLLM looks the depth up by the number of scheduled requests: 4 for one, 1 for more.
BY_BATCH_SIZE = [[1, 1, 4], [2, 16, 1]]
START_SECONDS = 600.0


def main() -> None:
    """Start one server after the other, and write its pages."""
    provide(CACHE / "models" / MODEL)
    with _server(None) as url:
        _load(url, alone=2, together=4)
        _write(url, "no-speculation", "no speculation, after 6 requests")

    with _server({"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 2}) as url:
        _load(url, alone=4, together=8)
        _write(url, "ngram-1-and-4", "n-gram, depth 4 for one request and 1 for more, after both loads")
        _abort(url)
        _write(url, "ngram-aborted", "the same server after one more request whose client went away")

    model = str(CACHE / "models" / MODEL)
    with _server({"method": "draft_model", "model": model}) as url:
        _write(url, "draft-idle", "a draft model that equals the target, before the first request")
        _load(url, alone=3, together=4)
        _write(url, "draft-1-and-4", "the same server after depth 4 for one request and 1 for more")


@contextmanager
def _server(speculative: Mapping[str, object] | None) -> Iterator[str]:
    vllm, port = provide_vllm(CACHE), free_port()
    command = [*vllm.command(CACHE / "models" / MODEL, "bfloat16", port), "--enforce-eager"]
    if speculative is not None:
        depths = {"num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": BY_BATCH_SIZE}
        command += ["--speculative-config", json.dumps({**speculative, **depths})]
    log = Path(tempfile.gettempdir()) / "specfleet-capture-vllm.log"
    server = Server("vllm", command, vllm.environment([0, 1]), port, log)
    server.wait_ready("/health", START_SECONDS)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.end()


def _load(url: str, *, alone: int, together: int) -> None:
    for _ in range(alone):
        _complete(url, 48)
    crowd = [threading.Thread(target=_complete, args=(url, 48)) for _ in range(together)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()


def _complete(url: str, tokens: int) -> None:
    with _post(url, tokens, stream=False) as answer:
        answer.read()


def _abort(url: str) -> None:
    """Leave after the first piece of a stream, and wait until vLLM has let the request go."""
    with _post(url, 900, stream=True) as answer:
        answer.readline()
    while _value(url, "vllm:num_requests_running") > 0.0:
        time.sleep(0.2)


def _value(url: str, name: str) -> float:
    return sum(
        float(line.rpartition(" ")[2]) for line in _page(url).splitlines() if line.startswith(name + "{")
    )


def _post(url: str, tokens: int, *, stream: bool) -> HTTPResponse:
    body = {
        "model": MODEL,
        "prompt": REPETITIVE,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": stream,
    }
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    answer: HTTPResponse = urllib.request.urlopen(request, timeout=300)
    return answer


def _page(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def _write(url: str, name: str, what: str) -> None:
    lines = [line for line in _page(url).splitlines() if "vllm:" in line and not line.startswith("# HELP")]
    title = f"# vLLM {VERSION} (CPU build), SmolLM2-135M: {what}."
    FIXTURES.mkdir(parents=True, exist_ok=True)
    (FIXTURES / f"vllm-{VERSION}-{name}.txt").write_text("\n".join([title, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
