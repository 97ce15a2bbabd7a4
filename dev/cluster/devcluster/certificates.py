"""Certificates of one cluster life: its own authority and one certificate per identity, made with openssl."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.settings import Ranges
from devcluster.shell import run

DAYS = "3650"
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True, slots=True)
class Identity:
    """One certificate: file name, subject, and the names that a server answers to (none: a client only)."""

    name: str
    user: str
    groups: Sequence[str] = ()
    server_names: Sequence[str] = ()

    @property
    def subject(self) -> str:
        """The subject as openssl writes it; a slash divides fields, and users may hold one."""
        fields = [f"/O={group}" for group in self.groups] + ["/CN=" + self.user.replace("/", "\\/")]
        return "".join(fields)


def identities(node: str, ranges: Ranges) -> tuple[Identity, ...]:
    """Answer who needs a certificate in this cluster."""
    cluster_names = [
        "DNS:kubernetes",
        "DNS:kubernetes.default",
        "DNS:kubernetes.default.svc",
        "DNS:kubernetes.default.svc.cluster.local",
    ]
    addresses = ["IP:127.0.0.1", f"IP:{ranges.node}"]
    return (
        Identity("apiserver", "kube-apiserver", (), [*cluster_names, *addresses, f"IP:{ranges.api_service}"]),
        Identity("apiserver-kubelet-client", "kube-apiserver-kubelet-client", ["system:masters"]),
        Identity("admin", "specfleet-admin", ["system:masters"]),
        Identity("kube-controller-manager", "system:kube-controller-manager"),
        Identity("kube-scheduler", "system:kube-scheduler"),
        Identity("kube-proxy", "system:kube-proxy"),
        Identity("coredns", "system:coredns"),
        Identity("kubelet", f"system:node:{node}", ["system:nodes"], [f"DNS:{node}", *addresses]),
    )


def make_certificates(folder: Path, wanted: Sequence[Identity]) -> None:
    """Write authority, service account key and a certificate with its key per identity into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority, authority_key = folder / "ca.crt", folder / "ca.key"
    usage = ["-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
    names = ["-subj", "/CN=specfleet-cluster", "-days", DAYS]
    run(["openssl", "req", "-x509", *NEW_KEY, *names, *usage, "-keyout", authority_key, "-out", authority])
    run(
        [
            "openssl",
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-out",
            folder / "sa.key",
        ]
    )
    run(["openssl", "pkey", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub"])
    for identity in wanted:
        extensions = ["-addext", "basicConstraints=critical,CA:false"]
        extensions += ["-addext", "extendedKeyUsage=clientAuth,serverAuth"]
        if identity.server_names:
            extensions += ["-addext", f"subjectAltName={','.join(identity.server_names)}"]
        command: list[str | Path] = [
            "openssl",
            "req",
            "-x509",
            *NEW_KEY,
            "-CA",
            authority,
            "-CAkey",
            authority_key,
        ]
        command += ["-subj", identity.subject, "-days", DAYS, *extensions]
        run([*command, "-keyout", folder / f"{identity.name}.key", "-out", folder / f"{identity.name}.crt"])
