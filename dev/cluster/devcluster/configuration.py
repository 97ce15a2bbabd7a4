"""Configuration files of the cluster's programs, as values and text. Pure."""

import json
from collections.abc import Mapping

from devcluster.settings import Ranges, Settings

RUNTIME_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "specfleet.local/pause:1"
REGISTRY_PORT = 5000
MAX_PODS = 250


def configuration_files(settings: Settings, ranges: Ranges) -> Mapping[str, str]:
    """Answer every configuration file, by its path below the configuration folder."""
    files = {
        "containerd.toml": containerd(settings),
        "cni/10-specfleet.conflist": json.dumps(pod_network(ranges), indent=1),
        # Images are named as on any cluster; the names without a host are looked up in the node's registry.
        "registry-hosts/docker.io/hosts.toml": registry_hosts(ranges),
        "registry.yaml": json.dumps(registry(settings, ranges), indent=1),
        "kubelet.yaml": json.dumps(kubelet(settings, ranges), indent=1),
        "Corefile": corefile(settings),
        "resolv.conf": "# no name server outside the cluster\n",
    }
    for user in ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns"):
        files[f"{user}.kubeconfig"] = json.dumps(kubeconfig(settings, ranges, user), indent=1)
    return files


def registry_url(ranges: Ranges) -> str:
    """The image registry on the node's address, which only this host and the pods reach."""
    return f"http://{ranges.node}:{REGISTRY_PORT}"


def registry_hosts(ranges: Ranges) -> str:
    """Where the runtime asks for images whose name has no host."""
    return f'[host."{registry_url(ranges)}"]\ncapabilities = ["pull", "resolve"]\n'


def server(ranges: Ranges) -> str:
    """The API server's address, the same for the host and the node."""
    return f"https://{ranges.node}:6443"


def kubeconfig(settings: Settings, ranges: Ranges, user: str) -> Mapping[str, object]:
    """Access for one identity, with the certificates as files."""
    name = f"specfleet-{settings.name}"
    credentials = {
        "client-certificate": str(settings.pki / f"{user}.crt"),
        "client-key": str(settings.pki / f"{user}.key"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server(ranges), "certificate-authority": str(settings.pki / "ca.crt")},
            }
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }


def containerd(settings: Settings) -> str:
    """The container runtime: own registry, own pod network, unpacked layers kept once."""
    folder = settings.configuration
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
  address = "{RUNTIME_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
  # A layer lies unpacked in the snapshotter; its compressed blob would be a second copy of gigabytes.
  discard_unpacked_layers = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{folder}/cni"

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "{folder}/registry-hosts"
"""


def pod_network(ranges: Ranges) -> Mapping[str, object]:
    """A routed link per pod. A bridge would need br_netfilter for Services between pods of one node."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": ranges.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/var/lib/cni/networks",
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": addresses},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return {"cniVersion": "0.4.0", "name": "specfleet", "plugins": plugins}


def registry(settings: Settings, ranges: Ranges) -> Mapping[str, object]:
    """The registry's folder and address."""
    return {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {
            "filesystem": {"rootdirectory": str(settings.store / "registry")},
            "delete": {"enabled": True},
        },
        "http": {"addr": f"{ranges.node}:{REGISTRY_PORT}"},
    }


def kubelet(settings: Settings, ranges: Ranges) -> Mapping[str, object]:
    """The node agent's configuration. Evictions and image clean-up are off as far as they can be."""
    pki = settings.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{RUNTIME_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{settings.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "maxPods": MAX_PODS,
        "clusterDomain": "cluster.local",
        "clusterDNS": [ranges.dns_service],
        "resolvConf": str(settings.configuration / "resolv.conf"),
        "podLogsDir": "/var/log/pods",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def corefile(settings: Settings) -> str:
    """Names of the cluster only: nothing is asked outside."""
    return f"""\
.:53 {{
    errors
    health 127.0.0.1:8090
    ready 127.0.0.1:8191
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {settings.configuration}/coredns.kubeconfig
        pods insecure
        ttl 5
    }}
    cache 5
}}
"""
