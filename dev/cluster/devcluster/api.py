"""The few requests that the tool itself sends to the cluster's API server, as its administrator."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any

from devcluster.errors import ClusterError
from devcluster.settings import Ranges, Settings

PORT = 6443
FIELD_MANAGER = "specfleet-cluster"


class ApiServer:
    """Small synchronous client; one connection per request."""

    def __init__(self, settings: Settings, ranges: Ranges) -> None:
        self._address = ranges.node
        self._context = ssl.create_default_context(cafile=str(settings.pki / "ca.crt"))
        self._context.load_cert_chain(settings.pki / "admin.crt", settings.pki / "admin.key")

    def request(
        self, method: str, path: str, body: Mapping[str, object] | None = None, timeout: float = 5.0
    ) -> tuple[int, str]:
        """Send one request. Raises OSError or http.client.HTTPException when there is no answer."""
        connection = http.client.HTTPSConnection(self._address, PORT, timeout=timeout, context=self._context)
        try:
            content = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/apply-patch+yaml"} if method == "PATCH" else {}
            if method == "POST":
                headers = {"Content-Type": "application/json"}
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Say whether the API server calls itself ready."""
        try:
            return self.request("GET", "/readyz", timeout=2.0)[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def get(self, path: str) -> Mapping[str, Any] | None:
        """Read one object; None when there is none or no answer."""
        try:
            status, text = self.request("GET", path)
        except (OSError, http.client.HTTPException):
            return None
        return json.loads(text) if status == http.client.OK else None

    def apply(self, path: str, body: Mapping[str, object]) -> None:
        """Make the object so (server-side apply). Raises ClusterError with the API server's words."""
        status, text = self.request("PATCH", f"{path}?fieldManager={FIELD_MANAGER}&force=true", body)
        if status not in (http.client.OK, http.client.CREATED):
            raise ClusterError(f"the API server refused {path} with status {status}: {text}")
