"""The local cluster itself: it starts fast, is repaired, serves pods, and leaves nothing on the host.

A second cluster beside the default one is made, used and removed, in this order. It needs root on Debian or
Ubuntu; where a given cluster or kind is used in its place there is nothing to test.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from devcluster.choice import Kind, choose_here
from devcluster.record import Record, read_record
from tests.e2e.support import wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = "specfleet-tool-test"
# Issue 3: a warm start to a ready node takes at most 30 s.
WARM_START_SECONDS = 30.0

pytestmark = [
    pytest.mark.skipif(choose_here().kind is not Kind.LOCAL, reason="another cluster is used in its place"),
    pytest.mark.timeout(600),
    pytest.mark.alone,
]


@dataclass(frozen=True)
class Tool:
    """The command line tool, with a state folder of its own."""

    environment: Mapping[str, str]
    state: Path

    def __call__(self, *arguments: str) -> str:
        command = [sys.executable, "dev/cluster/cluster.py", "--local", "--name", NAME, *arguments]
        done = subprocess.run(
            command, cwd=REPOSITORY, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def record(self) -> Record:
        record = read_record(self.state / "record.json")
        assert record is not None
        return record

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        command = [f"{self('bin')}/kubectl", "--kubeconfig", str(self.state / "kubeconfig"), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def command_output(*command: str) -> Sequence[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@dataclass(frozen=True)
class Host:
    """What a cluster could leave on the host. Counters and volatile numbers are cut away."""

    links: frozenset[str]
    routes: frozenset[str]
    rules: frozenset[str]
    mounts: frozenset[str]
    namespaces: frozenset[str]
    cgroups: frozenset[str]
    processes: frozenset[str]

    @classmethod
    def seen(cls) -> "Host":
        links = json.loads("".join(command_output("ip", "-json", "link", "show")))
        rules = [
            re.sub(r"\[\d+:\d+\]", "", line) for line in command_output("iptables-save") if line[0] in ":-"
        ]
        return cls(
            links=frozenset(link["ifname"] for link in links),
            routes=frozenset(command_output("ip", "-4", "route", "show", "table", "all")),
            rules=frozenset(rules),
            mounts=frozenset(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()),
            namespaces=frozenset(command_output("ip", "netns", "list")),
            cgroups=frozenset(str(path) for path in Path("/sys/fs/cgroup").glob(f"**/*{NAME}*")),
            processes=frozenset(command_lines_with(NAME)),
        )


def command_lines_with(text: str) -> Iterator[str]:
    """Find processes by the cluster's name, which is in every program's arguments; not this test's own."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and int(path.parent.name) != os.getpid():
            yield line


@dataclass(frozen=True)
class Start:
    """A cluster that was started, how long that took, and the host before it."""

    tool: Tool
    seconds: float
    host_before: Host


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    home = tmp_path_factory.mktemp("state")
    tool = Tool({**os.environ, "XDG_STATE_HOME": str(home)}, home / "specfleet" / "clusters" / NAME)
    # The first start on a machine makes programs and packages available; a warm start is measured after it.
    before = Host.seen()
    tool("up")
    tool("down")
    begin = time.monotonic()
    tool("up")
    yield Start(tool, time.monotonic() - begin, before)
    tool("down", "--images")


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def web_pod(started: Start) -> str:
    """Serve one file from a volume, from the simulated engine's image; answers the pod's name."""
    references = started.tool.state / "images.json"
    started.tool("build", "simulated", "--references", str(references))
    folder = started.tool.state / "volume"
    folder.mkdir()
    (folder / "page").write_text("from the volume", encoding="utf-8")
    image = json.loads(references.read_text(encoding="utf-8"))["simulated"]
    manifest = (Path(__file__).parent / "cluster_tool_pod.yaml").read_text(encoding="utf-8")
    started.tool.kubectl("apply", "-f", "-", stdin=manifest.format(image=image, folder=folder))
    started.tool.kubectl("wait", "--for=condition=Ready", "pod/server", "--timeout=90s")
    address = started.tool.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
    # kube-proxy follows readiness within its second of batching.
    wait_for("the Service answers", lambda: answers(f"http://{address}/page"), seconds=10)
    return "server"


def test_a_warm_start_gives_a_ready_node_in_time(started: Start) -> None:
    status = json.loads(started.tool("status"))

    assert status.pop("node") == "ready"
    assert set(status.values()) == {"running"}
    assert started.seconds <= WARM_START_SECONDS


def test_the_node_holds_a_fleet(started: Start) -> None:
    nodes = json.loads(started.tool.kubectl("get", "nodes", "-o", "json"))["items"]

    assert int(nodes[0]["status"]["allocatable"]["pods"]) >= 250


def test_up_again_changes_nothing_and_takes_about_a_second(started: Start) -> None:
    before = started.tool.record().processes

    begin = time.monotonic()
    printed = started.tool("up")
    took = time.monotonic() - begin

    assert Path(printed) == started.tool.state / "kubeconfig"
    assert started.tool.record().processes == before
    assert took <= 3.0


def test_up_gives_the_access_that_an_interrupted_start_did_not_write(started: Start) -> None:
    kubeconfig = started.tool.state / "kubeconfig"
    before = kubeconfig.read_text(encoding="utf-8")
    kubeconfig.unlink()

    started.tool("up")

    assert kubeconfig.read_text(encoding="utf-8") == before


def test_a_pod_reaches_services_by_name_and_reads_its_volume(started: Start, web_pod: str) -> None:
    get = "import urllib.request as r; print(r.urlopen('http://web.default.svc.cluster.local/page').read().decode())"

    assert started.tool.kubectl("exec", web_pod, "--", "python", "-c", get).strip() == "from the volume"


def test_the_host_reaches_pods_and_services(started: Start, web_pod: str) -> None:
    pod = started.tool.kubectl("get", "pod", web_pod, "-o", "jsonpath={.status.podIP}")
    service = started.tool.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")

    assert httpx.get(f"http://{pod}:8000/page").text == "from the volume"
    assert httpx.get(f"http://{service}/page").text == "from the volume"


def test_logs_and_port_forward_work(started: Start, web_pod: str) -> None:
    kubeconfig = str(started.tool.state / "kubeconfig")
    command = [f"{started.tool('bin')}/kubectl", "--kubeconfig", kubeconfig, "port-forward", web_pod, ":8000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        assert forward.stdout is not None
        # Its first line names the port that it chose, once it listens.
        port = forward.stdout.readline().split(":")[1].split()[0]
        page = httpx.get(f"http://127.0.0.1:{port}/page").text
        forward.terminate()

    assert page == "from the volume"
    assert "GET /page" in started.tool.kubectl("logs", web_pod)


def test_a_name_outside_the_cluster_fails_at_once(started: Start, web_pod: str) -> None:
    ask = """
import socket, time
begin = time.monotonic()
try:
    socket.gethostbyname("example.com")
except OSError:
    print(time.monotonic() - begin)
"""

    # Without an answer a resolver waits 5 s for each of its attempts.
    assert float(started.tool.kubectl("exec", web_pod, "--", "python", "-c", ask)) < 4.0


def test_up_restarts_what_has_ended_and_only_that(started: Start) -> None:
    before = started.tool.record().processes
    os.kill(before["kube-scheduler"].pid, signal.SIGKILL)

    started.tool("up")

    after = started.tool.record().processes
    assert after["kube-scheduler"].is_alive()
    assert {name: one for name, one in before.items() if name != "kube-scheduler"} == {
        name: one for name, one in after.items() if name != "kube-scheduler"
    }


def test_up_makes_a_cluster_anew_whose_namespaces_are_gone(started: Start) -> None:
    os.kill(started.tool.record().processes["sandbox"].pid, signal.SIGKILL)

    started.tool("up")

    assert all(process.is_alive() for process in started.tool.record().processes.values())
    assert json.loads(started.tool("status"))["node"] == "ready"


@pytest.mark.parametrize("kind", list(Host.__dataclass_fields__))
def test_down_leaves_nothing_on_the_host(started: Start, kind: str) -> None:
    if (started.tool.state / "record.json").exists():
        started.tool("down")

    left = getattr(Host.seen(), kind) - getattr(started.host_before, kind)

    assert not left


def test_down_leaves_no_state_of_the_cluster(started: Start) -> None:
    assert not (started.tool.state / "run").exists()
    assert not (started.tool.state / "kubeconfig").exists()


def test_down_without_a_cluster_does_nothing(started: Start) -> None:
    before = Host.seen()

    started.tool("down")

    assert Host.seen().links == before.links
