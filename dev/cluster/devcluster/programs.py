"""The cluster's programs, their arguments and the order they start in. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.configuration import configuration_files
from devcluster.settings import Ranges, Settings


@dataclass(frozen=True, slots=True)
class Program:
    """One process: its name in records and logs, and its command."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run: first the foundation; the workers once the API server answers.

    Equal fingerprints mean that a running cluster is the one that this tool would start.
    """

    foundation: Sequence[Program]
    workers: Sequence[Program]
    fingerprint: str


def plan(settings: Settings, ranges: Ranges, kube: Path) -> Plan:
    """Plan the cluster; ``kube`` is the folder of the Kubernetes programs."""
    first, then = _foundation(settings, ranges, kube), _workers(settings, ranges, kube)
    commands = [" ".join(program.command) for program in (*first, *then)]
    files = [f"{name}\n{text}" for name, text in sorted(configuration_files(settings, ranges).items())]
    text = "\n".join([*commands, *files])
    return Plan(first, then, hashlib.sha256(text.encode()).hexdigest())


def _foundation(settings: Settings, ranges: Ranges, kube: Path) -> tuple[Program, ...]:
    etc = settings.configuration
    return (
        Program("etcd", _etcd(settings, kube)),
        Program("containerd", ["containerd", "--config", str(etc / "containerd.toml")]),
        Program("registry", ["docker-registry", "serve", str(etc / "registry.yaml")]),
        Program("kube-apiserver", _api_server(settings, ranges, kube)),
    )


def _workers(settings: Settings, ranges: Ranges, kube: Path) -> tuple[Program, ...]:
    etc = settings.configuration

    def access(name: str) -> str:
        return f"--kubeconfig={etc / f'{name}.kubeconfig'}"

    return (
        Program("kubelet", _kubelet(settings, ranges, kube)),
        Program("kube-controller-manager", _controller_manager(settings, ranges, kube)),
        Program(
            "kube-scheduler",
            [
                str(kube / "kube-scheduler"),
                access("kube-scheduler"),
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--authentication-kubeconfig={etc / 'kube-scheduler.kubeconfig'}",
                f"--authorization-kubeconfig={etc / 'kube-scheduler.kubeconfig'}",
            ],
        ),
        Program(
            "kube-proxy",
            [
                str(kube / "kube-proxy"),
                access("kube-proxy"),
                "--proxy-mode=iptables",
                "--conntrack-max-per-core=0",
                f"--cluster-cidr={ranges.pods}",
                f"--hostname-override={settings.name}",
            ],
        ),
        Program("coredns", [str(kube / "coredns"), "-conf", str(etc / "Corefile")]),
    )


def _etcd(settings: Settings, kube: Path) -> Sequence[str]:
    return [
        str(kube / "etcd"),
        f"--data-dir={settings.run / 'etcd'}",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        "--initial-cluster=default=http://127.0.0.1:2380",
        # The data need not outlive a power cut, and a disk flush per write makes everything slow.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(settings: Settings, ranges: Ranges, kube: Path) -> Sequence[str]:
    pki = settings.pki
    return [
        str(kube / "kube-apiserver"),
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={ranges.node}",
        f"--service-cluster-ip-range={ranges.services}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def _controller_manager(settings: Settings, ranges: Ranges, kube: Path) -> Sequence[str]:
    pki = settings.pki
    access = settings.configuration / "kube-controller-manager.kubeconfig"
    return [
        str(kube / "kube-controller-manager"),
        f"--kubeconfig={access}",
        f"--authentication-kubeconfig={access}",
        f"--authorization-kubeconfig={access}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--allocate-node-cidrs",
        f"--cluster-cidr={ranges.pods}",
        # The only node may use the whole range; the usual /24 would hold fewer pods than it allows.
        "--node-cidr-mask-size=16",
    ]


def _kubelet(settings: Settings, ranges: Ranges, kube: Path) -> Sequence[str]:
    return [
        str(kube / "kubelet"),
        f"--config={settings.configuration / 'kubelet.yaml'}",
        f"--kubeconfig={settings.configuration / 'kubelet.kubeconfig'}",
        f"--hostname-override={settings.name}",
        # Not a loopback address, or `kubectl logs`, `exec` and `port-forward` fail.
        f"--node-ip={ranges.node}",
    ]
