"""Pure parts of the local cluster: what it starts, what it remembers, and how it asks its DNS server."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from devcluster import probes
from devcluster.certificates import identities
from devcluster.programs import plan
from devcluster.record import Process, Record, read_record, start_ticks, write_record
from devcluster.settings import Ranges, Settings

SETTINGS = Settings(name="one", state=Path("/s"), cache=Path("/c"), repository=Path("/r"))


def test_equal_plans_have_equal_fingerprints_and_another_address_slot_has_not() -> None:
    here = plan(SETTINGS, Ranges(0), Path("/kube")).fingerprint

    assert here == plan(SETTINGS, Ranges(0), Path("/kube")).fingerprint
    assert here != plan(SETTINGS, Ranges(1), Path("/kube")).fingerprint


def test_another_build_of_the_programs_is_another_plan() -> None:
    fingerprints = {plan(SETTINGS, Ranges(0), Path(f"/kube-{key}")).fingerprint for key in "ab"}

    assert len(fingerprints) == 2


def test_the_api_server_answers_to_every_name_it_is_called_by() -> None:
    names = next(one for one in identities("one", Ranges(0)) if one.name == "apiserver").server_names

    assert {"IP:127.0.0.1", "IP:10.99.0.2", "IP:10.96.0.1", "DNS:kubernetes.default.svc"} <= set(names)


def test_the_node_is_who_the_node_authorizer_expects() -> None:
    kubelet = next(one for one in identities("one", Ranges(0)) if one.name == "kubelet")

    assert kubelet.subject == "/O=system:nodes/CN=system:node:one"


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record(slot=2, fingerprint="f", processes={"etcd": Process(12, 345)})

    write_record(tmp_path / "record.json", record)

    assert read_record(tmp_path / "record.json") == record


def test_no_file_is_no_cluster(tmp_path: Path) -> None:
    assert read_record(tmp_path / "record.json") is None


def test_a_process_id_that_was_given_to_another_process_is_not_taken_for_the_old_one() -> None:
    ticks = start_ticks(os.getpid())
    assert ticks is not None

    assert Process(os.getpid(), ticks).is_alive()
    assert not Process(os.getpid(), ticks - 1).is_alive()


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    monkeypatch.setattr(probes, "DNS_PORT", server.getsockname()[1])
    yield server
    server.close()


@pytest.mark.parametrize(
    ("flags", "records", "expected"),
    [
        pytest.param(0x8180, 1, "10.96.0.1", id="one-address"),
        pytest.param(0x8183, 0, None, id="no-such-name"),
        pytest.param(0x8182, 0, None, id="server-failed"),
    ],
)
def test_a_name_has_the_address_that_the_server_answers(
    name_server: socket.socket, flags: int, records: int, expected: str | None
) -> None:
    def answer() -> None:
        query, client = name_server.recvfrom(512)
        # RFC 1035: the question again; the record points to its name, type A, class IN, 5 s, 4 bytes.
        record = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + socket.inet_aton("10.96.0.1")
        name_server.sendto(
            probes.HEADER.pack(1, flags, 1, records, 0, 0) + query[12:] + record * records, client
        )

    server = threading.Thread(target=answer)
    server.start()

    found = probes.resolve("kubernetes.default.svc.cluster.local", "127.0.0.1")

    server.join()
    assert found == expected


def test_a_dns_question_is_written_label_by_label() -> None:
    assert probes.dns_query("a.bc").endswith(b"\x01a\x02bc\x00\x00\x01\x00\x01")
