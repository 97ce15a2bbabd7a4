"""Questions whose answers show that a part of the cluster works."""

import http.client
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

DNS_PORT = 53
A_RECORD = 1
IN_CLASS = 1
HEADER = struct.Struct(">6H")


def is_ready_node(node: Mapping[str, Any] | None) -> bool:
    """Say whether a Node object reports ready."""
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def answers(url: str) -> bool:
    """Say whether a GET of the address gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=2.0) as answer:
            return bool(answer.status == http.client.OK)
    except (OSError, urllib.error.URLError, http.client.HTTPException):
        return False


def dns_query(name: str) -> bytes:
    """Write a DNS question for the IPv4 address of a name (RFC 1035, section 4)."""
    labels = b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.split("."))
    return HEADER.pack(1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", A_RECORD, IN_CLASS)


def resolve(name: str, server: str) -> str | None:
    """Ask a DNS server for the one IPv4 address of a name; None without an answer."""
    query = dns_query(name)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1.0)
        try:
            client.sendto(query, (server, DNS_PORT))
            answer = client.recv(512)
        except OSError:
            return None
    _, flags, _, records, _, _ = HEADER.unpack_from(answer)
    # The low four bits are the error code. The only record ends the packet with its four bytes of address.
    return socket.inet_ntoa(answer[-4:]) if flags & 0xF == 0 and records == 1 else None
