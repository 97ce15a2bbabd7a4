"""500 pools of 8 pods: one core, 50 queries a second and 500 MiB are the most that the operator may take.

The series are those of a simulated pod, the memory that of a tuner after two hours of it, copied to every pod
and pool. What is measured runs in a process of its own (`fleet`), against this Prometheus over HTTP.
"""

import json
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dev.evaluation.fleet import Input
from dev.evaluation.scenarios import TABLE_SCENARIOS
from dev.figures import figure

from specfleet.engines.metrics_vllm import BUILTIN
from specfleet.simulator.operator import SCOPE, settings_of
from specfleet.simulator.policies import POLICIES
from specfleet.simulator.pool import EPOCH
from specfleet.simulator.run import Run, simulate
from specfleet.telemetry.queries import fleet_query
from specfleet.tuning.memory import to_json

POOLS, PODS, NAMESPACES = 500, 8, 50
# As many warm passes as a tuner waits for whole data after its start.
WARM_UP, MEASURED = 3, 3
MOST_CORES, MOST_QUERIES, MOST_BYTES = 1.0, 50.0, 500 * 2**20
_NAMESPACE, _POD = "@namespace@", "@pod@"
_MATCHER = re.compile(r'namespace=~"([^"]*)"')


def measured(pools: int = POOLS, hours: float = 2.0) -> dict[str, float]:
    """Measure a fleet of ``pools``; its tuners have learnt for ``hours``."""
    scenario = replace(TABLE_SCENARIOS[1], seconds=int(3600 * hours))
    run = simulate(scenario, POLICIES["ours"](scenario), seed=101)
    last = run.passes[-WARM_UP - MEASURED :]
    names = [f"team-{number % NAMESPACES}" for number in range(pools)]
    fleet = tuple(
        frozenset((name, f"chat-{number}-{pod}") for pod in range(PODS)) for number, name in enumerate(names)
    )
    with _Prometheus(run, [EPOCH + one.at for one in last], fleet) as prometheus:
        before = run.passes[-WARM_UP - MEASURED - 1]
        given = Input(
            url=prometheus.url,
            scope=SCOPE,
            settings=settings_of(scenario),
            pools=fleet,
            memory=to_json(before.outcome.memory),
            document=[document for at, document in run.documents if at <= before.at][-1],
            fingerprint=before.outcome.memory.fingerprint,
            passes=tuple(EPOCH + one.at for one in last),
            warm_up=WARM_UP,
        )
        with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
            file.write(pickle.dumps(given))
            file.flush()
            command = [sys.executable, "-m", "dev.evaluation.fleet", file.name]
            told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(told.stdout)
    return found


def figures(found: Mapping[str, float], pools: int) -> list[dict[str, Any]]:
    """Put them beside their targets."""
    rows = (
        ("cores", "cores", MOST_CORES, 1.0),
        ("queries", "per second", MOST_QUERIES, 1.0),
        ("memory", "MiB", MOST_BYTES / 2**20, 2**20),
    )
    keys = {"cores": "cores", "queries": "queriesPerSecond", "memory": "bytes"}
    return [
        figure(
            f"{pools} pools of {PODS} pods: {name}",
            found[keys[name]] / unit_size,
            unit,
            at_most=most,
            kind="stretch",
        )
        for name, unit, most, unit_size in rows
    ]


class _Prometheus:
    """Serves the same pod's series as those of every pod of the fleet."""

    def __init__(self, run: Run, passes: list[float], fleet: tuple[frozenset[tuple[str, str]], ...]) -> None:
        query = fleet_query([BUILTIN], SCOPE, run.scenario.telemetry.scrape_seconds)
        chunks = {f"{at:.3f}": _chunk(run, query, at) for at in passes}
        by_namespace: dict[str, list[str]] = {}
        for pods in fleet:
            for namespace, pod in sorted(pods):
                by_namespace.setdefault(namespace, []).append(pod)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                narrowed = _MATCHER.search(asked["query"][0])
                names = narrowed[1].split("|") if narrowed else list(by_namespace)
                chunk = chunks[asked["time"][0]]
                result = ",".join(
                    chunk.replace(_NAMESPACE, name).replace(_POD, pod)
                    for name in names
                    for pod in by_namespace[name]
                )
                body = f'{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}'.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                # The first answer is larger than the operator takes: it hangs up and asks in parts.
                with suppress(ConnectionError):
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "_Prometheus":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _chunk(run: Run, query: str, at: float) -> str:
    """Write the answer for one pod as JSON, without the brackets around it."""
    series = run.prometheus.answer(query, at)
    written = [
        {
            "metric": {**one.labels, "namespace": _NAMESPACE, "pod": _POD},
            "values": [[stamp, str(value)] for stamp, value in one.samples],
        }
        for one in series
    ]
    return json.dumps(written)[1:-1]


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]) if len(sys.argv) > 1 else POOLS), indent=1))
