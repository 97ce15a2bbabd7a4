"""A process around transformers' `generate`, and around what the memory can stream. Driven over HTTP.

`python -m dev.bench.generator MODEL DTYPE PORT`: ``POST /generate`` with prompts and tokens, ``POST /stream``
for the bandwidth. It is started like the other peers, so that it can be stopped like them.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

STREAM_BYTES = 512 << 20
PASSES = 4


class Generator:
    """The model, loaded once."""

    def __init__(self, model: Path, dtype: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
        self._tokenizer.pad_token = self._tokenizer.eos_token
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
        self._model: Any = loaded.eval()
        self._memory = torch.ones(STREAM_BYTES // 4)

    def generate(self, prompts: list[str], tokens: int) -> dict[str, float]:
        """Continue all prompts in one batch."""
        began = time.monotonic()
        inputs = self._tokenizer(prompts, return_tensors="pt", padding=True)
        with torch.inference_mode():
            output = self._model.generate(
                **inputs, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False
            )
        self._tokenizer.batch_decode(output)
        fresh = output.shape[1] - inputs["input_ids"].shape[1]
        return {"tokens": fresh * len(prompts), "seconds": time.monotonic() - began}

    def stream(self) -> dict[str, float]:
        """Read a block that no cache holds, and give the bytes a second of the fastest pass."""
        best = float("inf")
        for _ in range(PASSES):
            began = time.monotonic()
            self._memory.sum()
            best = min(best, time.monotonic() - began)
        return {"bytes_per_second": STREAM_BYTES / best}


def main() -> None:
    """Load, then serve until killed."""
    model, dtype, port = sys.argv[1:]
    generator = Generator(Path(model), dtype)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stream = self.path == "/stream"
            self._answer(
                generator.stream() if stream else generator.generate(body["prompts"], body["tokens"])
            )

        def _answer(self, body: dict[str, float]) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing per request."""

    HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
