"""Objects that every cluster has besides its programs: cluster DNS and its permissions. Pure."""

from collections.abc import Mapping, Sequence

from devcluster.settings import Ranges

Object = Mapping[str, object]


def dns_objects(ranges: Ranges) -> Sequence[tuple[str, Object]]:
    """Answer API path and body of each object that lets CoreDNS, a program of the node, serve the cluster."""
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    role_name = "system:coredns"
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": role_name},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["endpoints", "services", "pods", "namespaces"],
                "verbs": ["list", "watch"],
            },
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    }
    binding: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role_name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role_name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": role_name}],
    }
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "spec": {"clusterIP": ranges.dns_service, "ports": ports},
    }
    endpoints: Object = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns-node",
            "namespace": "kube-system",
            "labels": {
                "kubernetes.io/service-name": "kube-dns",
                "endpointslice.kubernetes.io/managed-by": "specfleet-cluster",
            },
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": [ranges.node], "conditions": {"ready": True}}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    return (
        (f"{rbac}/clusterroles/{role_name}", role),
        (f"{rbac}/clusterrolebindings/{role_name}", binding),
        ("/api/v1/namespaces/kube-system/services/kube-dns", service),
        ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns-node", endpoints),
    )
