"""Users of a real vLLM: one who asks again and again, and ones who stream."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.e2e.vllm_engine import Engine


@contextmanager
def asking(ask: Callable[[], object]) -> Iterator[None]:
    """Have one user who asks again and again; what the user met is raised at the end."""
    done, met = threading.Event(), list[BaseException]()

    def loop() -> None:
        try:
            while not done.is_set():
                ask()
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            met.append(error)

    user = threading.Thread(target=loop)
    user.start()
    try:
        yield
    finally:
        done.set()
        user.join()
    if met:
        raise met[0]


class Stream(threading.Thread):
    """One streaming user of a pod."""

    def __init__(self, engine: Engine, pod: str, tokens: int) -> None:
        super().__init__()
        self._engine, self._tokens = engine, tokens
        self._path = engine.kube.pod(engine.namespace, pod, "/v1/completions")
        self.began = threading.Event()
        self.ended = 0.0
        self.parts: list[str] = []

    def run(self) -> None:
        body: Mapping[str, Any] = {
            "model": self._engine.name,
            "prompt": "Once upon a time",
            "temperature": 0,
            "ignore_eos": True,
            "max_tokens": self._tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        with self._engine.kube.proxy.stream("POST", self._path, json=body) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    self.parts.append(line.removeprefix("data: "))
                    self.began.set()
        self.ended = time.monotonic()

    def outcome(self) -> tuple[str | None, int, bool]:
        """Give the finish reason, the tokens, and whether the stream was ended."""
        bodies = [json.loads(part) for part in self.parts if part != "[DONE]"]
        reasons = [one["choices"][0]["finish_reason"] for one in bodies if one["choices"]]
        usages = [one["usage"]["completion_tokens"] for one in bodies if one.get("usage")]
        reason = next((reason for reason in reasons if reason), None)
        return reason, max(usages, default=0), self.parts[-1:] == ["[DONE]"]
