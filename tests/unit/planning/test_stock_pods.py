"""Pods of engines that are not ours: what probes, drain, shared memory and an init container look like.

Source: reference/engines.md, sections 2.5 and 3.4; design/contracts.md, "Probes, readiness, drain".
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest
from tests.unit.planning.builders import (
    NOON,
    a_configuration,
    a_pool,
    a_resource,
    after,
    an_empty_cluster,
    planned,
    reasons,
)

from specfleet.api.kinds import DEPLOYMENT, POD_MONITOR
from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.plan import plan


def a_stock_resource(
    engine: str = "vllm", *, pool: Any = None, settings: Any = None, **fields: Any
) -> SpeculativeDeployment:
    return a_resource(
        a_pool(**(pool or {})),
        model={"uri": "pvc://weights/llama"},
        engine={"type": engine, **(settings or {})},
        **fields,
    )


def pod_of(resource: SpeculativeDeployment, **configuration: Any) -> dict[str, Any]:
    found = planned(resource, an_empty_cluster(), **configuration)
    (body,) = [desired.body for desired in found.desired if desired.kind == DEPLOYMENT]
    spec: dict[str, Any] = body["spec"]["template"]["spec"]
    return spec


def container_of(resource: SpeculativeDeployment) -> dict[str, Any]:
    (container,) = pod_of(resource)["containers"]
    return dict(container)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_stock_image_runs_as_a_user_without_rights_on_a_read_only_root(engine: str) -> None:
    pod = pod_of(a_stock_resource(engine))

    # Both images would run as root, which the restricted standard refuses.
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_each_variable_is_there_once_and_the_users_value_wins(engine: str) -> None:
    mine = {"name": "HOME", "value": "/home/me"}

    env = container_of(a_stock_resource(engine, settings={"env": [mine]}))["env"]
    names = [entry["name"] for entry in env]

    assert len(set(names)) == len(names)
    assert mine in env


OWN_SHARED_MEMORY = {
    "volumes": [{"name": "mine", "emptyDir": {}}],
    "volumeMounts": [{"name": "mine", "mountPath": "/dev/shm"}],
}


@pytest.mark.fault("vllm#37982")
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_shared_memory_is_a_memory_volume_that_the_users_own_replaces(engine: str) -> None:
    own = {"template": OWN_SHARED_MEMORY}

    (ours,) = [v for v in pod_of(a_stock_resource(engine))["volumes"] if v["name"] == "shared-memory"]
    mounts = container_of(a_stock_resource(engine, pool=own))["volumeMounts"]

    assert ours["emptyDir"] == {"medium": "Memory", "sizeLimit": "2048Mi"}
    assert [m["name"] for m in mounts if m["mountPath"] == "/dev/shm"] == ["mine"]


@pytest.mark.parametrize(
    ("limit", "template", "expected"),
    [
        pytest.param("1Gi", {}, ["TooLittleMemory"], id="too-little"),
        pytest.param("2Gi", {}, [], id="enough"),
        pytest.param("1Gi", OWN_SHARED_MEMORY, [], id="a-volume-of-the-users-own"),
    ],
)
def test_a_memory_limit_without_room_for_shared_memory_is_refused(
    limit: str, template: dict[str, Any], expected: list[str]
) -> None:
    limited = {"resources": {"limits": {"memory": limit}}, **template}
    resource = a_stock_resource(pool={"template": limited})

    assert reasons(planned(resource, an_empty_cluster())) == expected


@pytest.mark.parametrize(("gpus", "expected"), [(1, ["TooFewGpus"]), (2, []), (0, [])])
def test_a_pod_has_the_gpus_that_the_engine_shares_the_model_among(gpus: int, expected: list[str]) -> None:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    resource = a_stock_resource(
        settings={"tensorParallelSize": 2}, pool={"template": {"resources": {"limits": limits}}}
    )

    assert reasons(planned(resource, an_empty_cluster())) == expected


@pytest.mark.fault("vllm#43208", "kserve/kserve#5485")
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_pod_leaves_its_services_then_drains_and_is_killed_close_above_both(engine: str) -> None:
    resource = a_stock_resource(engine)
    container, pod = container_of(resource), pod_of(resource)

    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace = pod["terminationGracePeriodSeconds"]

    assert sleep == 15
    if engine == "vllm":
        drain = int(container["args"][container["args"].index("--shutdown-timeout") + 1])
        # Past the drain vLLM's streams may hang until SIGKILL (measured, reference 2.5): the rest is short.
        assert sleep + drain < grace <= sleep + drain + 15
    else:
        # SGLang waits without limit, so that only the grace period ends it; it looks every 5 s, and its
        # schedulers have 15 s to end.
        assert grace >= sleep + 120 + 20


@pytest.mark.fault("vllm-project/aibrix#772", "vllm#19377")
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_no_probe_kills_a_pod_that_is_loading(engine: str) -> None:
    container = container_of(a_stock_resource(engine))

    startup = container["startupProbe"]

    # 15 minutes, and 80 GiB from a claim at 100 MiB/s.
    assert startup["periodSeconds"] * startup["failureThreshold"] == 1740
    assert "initialDelaySeconds" not in container["livenessProbe"]


def test_sglangs_health_has_more_time_than_it_takes_for_itself() -> None:
    container = container_of(a_stock_resource("sglang"))

    # It polls in steps of 1 s and waits up to 20 s for a token of its own (reference, 3.4).
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert container["livenessProbe"]["timeoutSeconds"] > 20
    assert container["startupProbe"]["httpGet"]["path"] == "/health_generate"
    assert container["startupProbe"]["timeoutSeconds"] > 20
    # The one route that is false while it drains.
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"


class _Vllm(BaseHTTPRequestHandler):
    """As much of vLLM's API as the warm-up uses."""

    tokens: ClassVar[int] = 4
    status: ClassVar[int] = 200
    seen: ClassVar[list[tuple[str, str | None, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.path, self.headers["Authorization"], body))
        answer = json.dumps({"usage": {"completion_tokens": self.tokens}}).encode()
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(answer)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Stay quiet."""


@pytest.fixture
def server() -> Iterator[type[_Vllm]]:
    class Fresh(_Vllm):
        seen: ClassVar[list[tuple[str, str | None, dict[str, Any]]]] = []

    listening = HTTPServer(("127.0.0.1", 0), Fresh)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    Fresh.port = listening.server_port  # type: ignore[attr-defined]
    yield Fresh
    listening.shutdown()
    listening.server_close()


def warm_up(port: int, **variables: str) -> int:
    """Run the start-up probe as the kubelet would, against another port."""
    (name, flag, script) = container_of(a_stock_resource())["startupProbe"]["exec"]["command"]
    assert (name, flag) == ("python3", "-c")
    run = [sys.executable, flag, script.replace(":8000/", f":{port}/")]
    return subprocess.run(run, env=variables, capture_output=True, check=False, timeout=20).returncode


@pytest.mark.fault("llm-d/llm-d#330")
def test_a_pod_is_started_when_tokens_were_generated_through_its_proposer(server: Any) -> None:
    assert warm_up(server.port) == 0

    ((path, key, body),) = server.seen
    assert path == "/v1/completions"
    assert key is None
    # More than one step, whatever it accepts: the first forward pass of a wrong head ends the engine.
    assert (body["max_tokens"], body["ignore_eos"]) == (4, True)


def test_the_warm_up_has_the_key_that_the_engine_asks_for(server: Any) -> None:
    assert warm_up(server.port, VLLM_API_KEY="open sesame") == 0
    assert server.seen[0][1] == "Bearer open sesame"


@pytest.mark.parametrize(("status", "tokens"), [(500, 4), (503, 4), (200, 0)])
def test_an_engine_that_does_not_answer_with_tokens_is_not_started(
    server: Any, status: int, tokens: int
) -> None:
    server.status, server.tokens = status, tokens

    assert warm_up(server.port) != 0


def test_an_engine_that_does_not_listen_is_not_started() -> None:
    assert warm_up(1) != 0


def test_the_plug_in_is_copied_before_the_engine_starts_to_where_it_looks() -> None:
    pod = pod_of(a_stock_resource())
    (init,) = pod["initContainers"]
    (engine,) = pod["containers"]
    variables = {entry["name"]: entry.get("value") for entry in engine["env"]}

    assert init["name"] == "specfleet-vllm-plugin"
    assert init["image"] == "example.test/vllm-plugin:1"
    assert init["args"] == [variables["PYTHONPATH"]]
    (filled,) = [mount for mount in init["volumeMounts"] if mount["mountPath"] == variables["PYTHONPATH"]]
    (read,) = [mount for mount in engine["volumeMounts"] if mount["mountPath"] == variables["PYTHONPATH"]]
    assert filled["name"] == read["name"]
    assert read["readOnly"] is True
    assert {"name": read["name"], "emptyDir": {}} in pod["volumes"]
    assert variables["SPECFLEET_SCHEDULE_FILE"].rpartition("/")[0] in [
        mount["mountPath"] for mount in engine["volumeMounts"]
    ]


@pytest.mark.fault("kserve/kserve#5208")
@pytest.mark.fault("ai-dynamo/dynamo#13238")
@pytest.mark.parametrize(
    ("engine", "method", "ports"),
    [
        ("vllm", "ngram", ["http", "specfleet"]),
        ("vllm", "suffix", ["http"]),
        ("sglang", "ngram", ["http"]),
    ],
)
def test_every_port_with_metrics_is_scraped_by_its_name(engine: str, method: str, ports: list[str]) -> None:
    resource = a_stock_resource(engine, speculation={"method": method})
    found = plan(resource, a_configuration(), an_empty_cluster(pod_monitors_served=True), NOON)
    (monitor,) = [desired.body for desired in found.desired if desired.kind == POD_MONITOR]

    assert [port["name"] for port in container_of(resource)["ports"]] == ports
    assert [endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]] == ports


@pytest.mark.parametrize(
    ("engine", "image"), [("vllm", "example.test/vllm:v0.32.0"), ("sglang", "example.test/sglang:v0.5.23")]
)
def test_the_default_image_is_of_the_tested_version(engine: str, image: str) -> None:
    assert container_of(a_stock_resource(engine))["image"] == image


def test_the_version_picks_the_default_image() -> None:
    resource = a_stock_resource(settings={"version": "0.33.1"})

    assert container_of(resource)["image"] == "example.test/vllm:v0.33.1"


def images(**changed: str) -> dict[str, Any]:
    known = {"builtin": "b:1", "simulated": "s:1", "vllm": "v:1", "vllmPlugin": "p:1"}
    return {"images": known | changed}


@pytest.mark.parametrize(
    ("configuration", "engine", "expected"),
    [
        pytest.param(images(), {}, [], id="one-version-and-none-asked-for"),
        pytest.param(images(), {"version": "0.33.0"}, ["ImageMissing"], id="another-version"),
        pytest.param(images(), {"version": "0.33.0", "image": "mine:1"}, [], id="own-image"),
        pytest.param(images(vllm=""), {}, ["ImageMissing"], id="no-image"),
        pytest.param(images(vllm=""), {"image": "mine:1"}, [], id="own-image-only"),
        pytest.param(images(vllmPlugin=""), {"image": "mine:1"}, ["ImageMissing"], id="no-plug-in"),
    ],
)
def test_a_missing_image_is_told_before_a_pod_waits_for_it(
    configuration: dict[str, Any], engine: dict[str, Any], expected: list[str]
) -> None:
    resource = a_stock_resource(settings=engine)

    assert reasons(planned(resource, an_empty_cluster(), **configuration)) == expected


def test_an_upgrade_that_brings_new_images_keeps_the_running_ones() -> None:
    resource, nothing = a_stock_resource(), an_empty_cluster()
    cluster = after(planned(resource, nothing), nothing)
    newer = images(vllm="example.test/vllm:v9", vllmPlugin="example.test/vllm-plugin:2")

    again = planned(resource, cluster, **newer)

    assert [desired.key for desired in again.desired if desired.kind == DEPLOYMENT] == []


def test_a_change_of_the_spec_takes_the_new_images() -> None:
    nothing = an_empty_cluster()
    cluster = after(planned(a_stock_resource(), nothing), nothing)
    newer = images(vllm="example.test/vllm:v9", vllmPlugin="example.test/vllm-plugin:2")

    again = planned(a_stock_resource(settings={"maxNumSeqs": 32}), cluster, **newer)

    (body,) = [desired.body for desired in again.desired if desired.kind == DEPLOYMENT]
    pod = body["spec"]["template"]["spec"]
    assert [container["image"] for container in (*pod["initContainers"], *pod["containers"])] == [
        "example.test/vllm-plugin:2",
        "example.test/vllm:v9",
    ]
