"""Stands in for `sglang.launch_server`, which needs a GPU: reads its table when it starts, and shows it."""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HEALTHY = ("/health", "/health_generate", "/ready")


def main() -> None:
    """Serve what probes ask for, and `/table`."""
    # SGLang has flags that begin like others.
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--speculative-adaptive-config", type=Path, required=True)
    given, _ = parser.parse_known_args()
    table = json.loads(given.speculative_adaptive_config.read_text())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages = {**dict.fromkeys(HEALTHY, ""), "/table": json.dumps(table)}
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

    ThreadingHTTPServer(("", given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
