"""A model hub that speaks the protocol of the real one, and can misbehave on demand.

Files below ``LARGE`` bytes are served in place, others by a redirect to a content store, as LFS files are.
Headers and shapes: huggingface_hub 2.4, `file_download.py` and `hf_api.py`.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = 1000
COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"
OLDER = "5f0b02c75b57c5855da9ae460ce51323ea669d8a"

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Hub:
    """One repository, org/model, whose branch main stands at `COMMIT`."""

    files: dict[str, bytes]
    needs_token: str | None = None
    gated: bool = False
    # Wrong bytes by name, served in place of the right ones; "cut" ones break off in the middle, once.
    replaced: dict[str, bytes] = field(default_factory=dict)
    cut_once: set[str] = field(default_factory=set)
    status: int | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    tokens_at_the_store: list[str] = field(default_factory=list)
    url: str = ""
    store_url: str = ""

    def answer(self, method: str, path: str, headers: Message) -> Answer:
        self.requests.append((method, path))
        if self.status is not None:
            return self.status, {}, b""
        if found := re.fullmatch("/store/(.+)", path):
            return self._content(found[1], headers)
        return self._refusal(path, headers) or self._repository(path)

    def _repository(self, path: str) -> Answer:
        if re.fullmatch("/api/models/org/model/revision/(main|v1)", path):
            return _json({"id": "org/model", "sha": COMMIT, "siblings": []})
        if path == "/api/models/org/model/commits/main":
            return _json([_commit(COMMIT), _commit(OLDER)])
        if path == f"/api/models/org/model/tree/{COMMIT}":
            return _json([self._entry(name) for name in self.files])
        if (found := re.fullmatch(f"/org/model/resolve/{COMMIT}/(.+)", path)) and found[1] in self.files:
            return self._file(found[1])
        return 404, {"X-Error-Code": "RevisionNotFound"}, b""

    def _refusal(self, path: str, headers: Message) -> Answer | None:
        token = (headers.get("authorization") or "").removeprefix("Bearer ")
        if self.gated:
            return 403, {"X-Error-Code": "GatedRepo"}, b""
        if self.needs_token is not None and token != self.needs_token:
            wrong = {"X-Error-Message": "Invalid credentials in Authorization header"}
            return 401, wrong if token else {"X-Error-Code": "RepoNotFound"}, b""
        if "/org/model/" not in path:
            return 401, {"X-Error-Code": "RepoNotFound"}, b""
        return None

    def _entry(self, name: str) -> dict[str, object]:
        content = self.files[name]
        entry = {"type": "file", "path": name, "size": len(content), "oid": _blob(content)}
        if len(content) < LARGE:
            return entry
        return entry | {"lfs": {"oid": _sha256(content), "size": len(content), "pointerSize": 134}}

    def _file(self, name: str) -> Answer:
        content = self.files[name]
        if len(content) < LARGE:
            own = {"ETag": f'"{_blob(content)}"', "X-Repo-Commit": COMMIT}
            return 200, own, self.replaced.get(name, content)
        linked = {
            "X-Repo-Commit": COMMIT,
            "X-Linked-Etag": f'"{_sha256(content)}"',
            "X-Linked-Size": str(len(content)),
            # Another host, as at the real hub: the client must not send the token there.
            "Location": f"{self.store_url}/store/{name}",
        }
        return 302, linked, b""

    def _content(self, name: str, headers: Message) -> Answer:
        self.tokens_at_the_store += headers.get_all("authorization") or []
        content = self.replaced.get(name, self.files[name])
        if span := headers.get("range"):
            self.ranges.append(span)
            begin = int(span.removeprefix("bytes=").split("-")[0])
            where = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
            return 206, where, content[begin:]
        return 200, {}, content


@contextmanager
def serving(hub: Hub, address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Hub]:
    """Serve a hub at ``hub.url`` and ``hub.store_url``; empty ones become addresses of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            path = unquote(urlsplit(self.path).path)
            status, headers, body = hub.answer(self.command, path, self.headers)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            name = path.rpartition("/")[2]
            if name in hub.cut_once and "/store/" in path:
                hub.cut_once.discard(name)
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
                return
            self.wfile.write(body)

        do_GET = do_HEAD = _serve  # noqa: N815  the names that http.server asks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
            pass

    server = ThreadingHTTPServer(address, Handler)
    hub.url = hub.url or f"http://127.0.0.1:{server.server_port}"
    hub.store_url = hub.store_url or f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _json(value: object) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _commit(name: str) -> dict[str, object]:
    return {"id": name, "title": "a change", "message": "", "authors": [], "date": "2026-01-01T00:00:00.000Z"}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _blob(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
