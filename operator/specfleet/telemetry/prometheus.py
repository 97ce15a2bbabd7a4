"""The adapter to Prometheus: prometheus-api-client behind the async port, in two threads of its own.

`session.BoundedSession` sets the limits of one answer, `circuit.Circuit` those of a source that is down.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from sys import intern
from typing import Any

from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from specfleet.api.configuration import MetricsSourceConfig
from specfleet.telemetry.circuit import Circuit
from specfleet.telemetry.errors import AnswerMalformed, MetricsError, SourceTimeout, SourceUnavailable
from specfleet.telemetry.session import MAX_ANSWER_BYTES, BoundedSession
from specfleet.telemetry.source import Series

OPEN_SECONDS = 10.0  # shorter than a scrape interval: the next pass tries again
THREADS = 2


class PrometheusSource:
    """One Prometheus of the configuration. Close it when the operator stops."""

    def __init__(
        self,
        config: MetricsSourceConfig,
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout_seconds = config.timeout_seconds
        self._parameters = dict(config.query_parameters)
        self._session = BoundedSession(config, max_bytes)
        # retry: the library's own default multiplies the timeout by four.
        self._client = PrometheusConnect(
            url=config.url.rstrip("/"), session=self._session, retry=Retry(total=0), timeout=None
        )
        self._session.mount_adapters()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="metrics-source")
        self._circuit = Circuit(OPEN_SECONDS, clock)

    async def query(self, promql: str, at: float) -> list[Series]:
        """Evaluate a range selector at ``at``. Raises `MetricsError`; see `specfleet.telemetry.errors`."""
        if wait := self._circuit.seconds_until_attempt():
            raise SourceUnavailable(f"the metrics source failed repeatedly: next attempt in {wait:.0f} s")
        parameters = {"time": f"{at:.3f}", **self._parameters}
        loop = asyncio.get_running_loop()
        try:
            # The session has the same deadline; this one also covers slow headers and a busy pool.
            async with asyncio.timeout(self._timeout_seconds + 1.0):
                found = await loop.run_in_executor(self._threads, self._send, promql, parameters)
        except (SourceTimeout, SourceUnavailable):
            self._circuit.failed()
            raise
        except TimeoutError as error:
            self._circuit.failed()
            raise SourceTimeout(
                f"the metrics source did not answer within {self._timeout_seconds:g} s"
            ) from error
        except MetricsError:
            self._circuit.succeeded()  # somebody is there
            raise
        self._circuit.succeeded()
        return found

    def _send(self, promql: str, parameters: dict[str, str]) -> list[Series]:
        try:
            result: list[Any] = self._client.custom_query(promql, params=parameters)
        except PrometheusApiClientException as error:
            # Its text is the body of the answer.
            raise AnswerMalformed("the metrics source gives an unexpected answer") from error
        found = []
        result.reverse()
        while result:  # each item goes as it is read: an answer and its series are never held both
            found.append(_series(result.pop()))
        return found

    async def close(self) -> None:
        """Drop connections and threads; a thread that still waits ends with its deadline."""
        self._session.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _series(item: Any) -> Series:
    """Read one series of a matrix. Values are strings: NaN and infinities stay what they are (trap P18)."""
    try:
        # Most labels are the same in thousands of series: one string for all of them.
        labels: Mapping[str, str] = {intern(name): intern(value) for name, value in item["metric"].items()}
        # A native histogram has "histograms" instead of "values": no samples that we read.
        samples = tuple([(float(at), float(value)) for at, value in item.get("values", ())])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AnswerMalformed("a series of the answer cannot be read") from error
    return Series(labels, samples)
