"""A `requests.Session` with hard limits, to be handed to prometheus-api-client.

The library has no deadline for a whole answer, no size cap, follows redirects, uses proxy variables, and
drops ``warnings``. All of that is settled here, before it sees the response.
Source: reference/kopf-and-kubernetes.md, section 4.
"""

import json
import time
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.exceptions import HTTPError, ReadTimeoutError

from specfleet.api.configuration import MetricsSourceConfig
from specfleet.telemetry.errors import (
    AnswerMalformed,
    AnswerPartial,
    AnswerTooLarge,
    QueryRefused,
    SourceRefused,
    SourceTimeout,
    SourceUnavailable,
)

MAX_ANSWER_BYTES = 32 * 2**20  # 20,000 series with a few samples each are about 8 MB
CHUNK_BYTES = 64 * 2**10


class FileCredentials(AuthBase):
    """Bearer token or basic authentication from mounted files, read again for every request."""

    def __init__(self, config: MetricsSourceConfig) -> None:
        self._config = config

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        config = self._config
        if config.bearer_token_file:
            request.headers["Authorization"] = f"Bearer {_secret(config.bearer_token_file, 'bearer token')}"
        elif config.basic_username_file and config.basic_password_file:
            user = _secret(config.basic_username_file, "user name")
            HTTPBasicAuth(user, _secret(config.basic_password_file, "password"))(request)
        return request


def _secret(path: str, what: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceRefused(f"the {what} file of the metrics source cannot be read") from error
    if not text.isprintable():
        raise SourceRefused(f"the {what} file of the metrics source must hold a single line")
    return text


class BoundedSession(requests.Session):
    """One request: no redirect, no proxy from the environment, one deadline, at most ``max_bytes``."""

    def __init__(self, config: MetricsSourceConfig, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        super().__init__()
        self._deadline_seconds = config.timeout_seconds
        self._max_bytes = max_bytes
        self.trust_env = False
        self.auth = FileCredentials(config)
        self.verify = config.ca_file or True
        # Identity: a compressed body could grow past the cap in one read.
        self.headers["Accept-Encoding"] = "identity"
        if config.tenant_header:
            self.headers["X-Scope-OrgID"] = config.tenant_header

    def mount_adapters(self) -> None:
        """Put plain adapters in place of the one that prometheus-api-client mounts with its own retries."""
        self.adapters.clear()
        for scheme in ("https://", "http://"):
            self.mount(scheme, HTTPAdapter())

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Never follow: even to look at the next request, requests would read this body without a limit."""

    def request(self, method: str | bytes, url: str | bytes, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        """Send, read within the limits, and refuse every answer that is not a whole matrix."""
        ends_at = time.monotonic() + self._deadline_seconds
        kwargs |= {
            "stream": True,
            "allow_redirects": False,
            "timeout": self._deadline_seconds,
            "auth": self.auth,
        }
        try:
            with super().request(method, url, **kwargs) as response:
                body = self._read(response, ends_at)
        except (requests.Timeout, ReadTimeoutError) as error:
            raise SourceTimeout(self._late()) from error
        except requests.exceptions.SSLError as error:
            raise SourceUnavailable(
                "the certificate of the metrics source is not trusted: check its caFile"
            ) from error
        except (requests.RequestException, HTTPError, OSError) as error:
            raise SourceUnavailable("the metrics source cannot be reached: check its url") from error
        _check_status(response.status_code)
        answer = _checked(body)
        # The library calls response.json(): the body has been read already, and parsed once is enough.
        response._content = body
        response.json = lambda **_: answer  # type: ignore[method-assign]
        return response

    def _read(self, response: requests.Response, ends_at: float) -> bytes:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise AnswerMalformed("the metrics source compresses although it was asked not to")
        parts: list[bytes] = []
        size = 0
        # read1: a plain read waits for a full chunk, so a dripped body would pass every socket timeout.
        while part := response.raw.read1(CHUNK_BYTES):
            size += len(part)
            parts.append(part)
            if size > self._max_bytes:
                raise AnswerTooLarge(f"the answer passes {self._max_bytes} bytes: narrow metricsScope")
            if time.monotonic() > ends_at:
                raise SourceTimeout(self._late())
        return b"".join(parts)

    def _late(self) -> str:
        return f"the metrics source did not answer within {self._deadline_seconds:g} s"


def _check_status(status: int) -> None:
    if status == 200:
        return
    if status in (401, 403):
        raise SourceRefused(f"the metrics source refuses the operator's credentials (HTTP {status})")
    if status in (400, 422):
        raise QueryRefused(f"the metrics source cannot evaluate the query (HTTP {status})")
    if 300 <= status < 400:
        raise AnswerMalformed(f"the metrics source redirects (HTTP {status}): configure its final url")
    if status == 429 or status >= 500:
        raise SourceUnavailable(f"the metrics source is not able to answer now (HTTP {status})")
    raise AnswerMalformed(f"the metrics source answers HTTP {status}: is its url that of a Prometheus?")


def _checked(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise AnswerMalformed("the answer is not JSON: is the url that of a Prometheus?") from error
    if not isinstance(answer, dict) or answer.get("status") != "success":
        raise AnswerMalformed("the answer does not report success")
    if answer.get("warnings"):
        raise AnswerPartial("the metrics source warns that its answer may lack data")
    data = answer.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("result"), list):
        raise AnswerMalformed("the answer carries no data")
    if data.get("resultType") != "matrix":
        raise AnswerMalformed("the answer is not a matrix of raw samples")
    return answer
