"""Values that real installations would use; every general rule is checked on each of them."""

from typing import Any

NAMESPACED: dict[str, Any] = {"watchNamespaces": ["team-a", "team-b"]}
OWN_PROMETHEUS: dict[str, Any] = {"prometheus": {"install": True}}
SECURED_SOURCE: dict[str, Any] = {
    "metricsSources": {
        "default": {
            "url": "https://prometheus.monitoring.svc:9091/api/prom",
            "timeoutSeconds": 3,
            "tenantHeader": "team-a",
            "queryParameters": {"dedup": "true"},
            "ca": {"configMap": "prometheus-ca", "key": "service-ca.crt"},
            "basicAuth": {"secret": "prometheus-login", "usernameKey": "user", "passwordKey": "pass"},
        },
        "plain": {"url": "http://prometheus.other.svc"},
        "token": {
            "url": "https://thanos.monitoring.svc",
            "bearerToken": {"secret": "thanos-token", "key": "token"},
        },
    }
}
EVERYTHING: dict[str, Any] = {
    **NAMESPACED,
    **OWN_PROMETHEUS,
    "image": "mirror/specfleet-operator@sha256:" + "0" * 64,
    "imagePullSecrets": ["mirror"],
    "engineImages": {"builtin": "mirror/engine:1", "simulated": "mirror/simulated:1"},
    "modelHub": {"endpoint": "https://hub.mirror.example"},
    "allowedServiceAccounts": ["model-reader"],
    "limits": {"maxReplicas": 12, "maxGpus": 4},
    "tuning": {"scrapeIntervalSeconds": 5, "probeUnknownIntervalSeconds": 30},
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "observability"}}}],
        "engines": {"namespaces": ["team-a"], "from": [{"podSelector": {}}]},
    },
    "monitoring": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
    "runAsUser": None,
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "podLabels": {"team": "platform"},
    "podAnnotations": {"note": "x"},
    "serviceAccount": {"annotations": {"note": "x"}},
}
VALUE_SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "namespaced": NAMESPACED,
    "own-prometheus": OWN_PROMETHEUS,
    "secured-source": SECURED_SOURCE,
    "everything": EVERYTHING,
}
