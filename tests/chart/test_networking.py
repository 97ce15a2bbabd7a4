"""Who may talk to whom, and what the chart's Prometheus scrapes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendering import Rendered, render

Chart = Callable[[str], Rendered]

PROMETHEUS_LABELS = {
    "app.kubernetes.io/name": "specfleet",
    "app.kubernetes.io/instance": "specfleet",
    "app.kubernetes.io/component": "prometheus",
}


def policy(rendering: Rendered) -> dict[str, Any]:
    spec: dict[str, Any] = rendering.one("NetworkPolicy", "specfleet-operator")["spec"]
    return spec


def scrape_config(rendering: Rendered, job: str) -> dict[str, Any]:
    text = rendering.one("ConfigMap", "specfleet-prometheus")["data"]["prometheus.yml"]
    (found,) = (entry for entry in yaml.safe_load(text)["scrape_configs"] if entry["job_name"] == job)
    return dict(found)


@pytest.mark.fault("opendatahub-io/kserve#1589")
def test_the_charts_prometheus_may_scrape_the_operator(chart: Chart) -> None:
    (rule,) = policy(chart("own-prometheus"))["ingress"]

    assert rule["ports"] == [{"protocol": "TCP", "port": "health"}]
    assert rule["from"] == [{"podSelector": {"matchLabels": PROMETHEUS_LABELS}}]


@pytest.mark.fault("opendatahub-io/kserve#1589")
def test_another_prometheus_is_let_in_beside_it(chart: Chart) -> None:
    (rule,) = policy(chart("everything"))["ingress"]

    assert {"namespaceSelector": {"matchLabels": {"team": "observability"}}} in rule["from"]
    assert len(rule["from"]) == 2


def test_without_a_named_prometheus_any_pod_may_scrape_and_no_other_port_opens(chart: Chart) -> None:
    (rule,) = policy(chart("defaults"))["ingress"]

    assert rule == {"ports": [{"protocol": "TCP", "port": "health"}]}


def test_the_operator_reaches_names_the_api_server_and_the_charts_prometheus_only(chart: Chart) -> None:
    egress = policy(chart("own-prometheus"))["egress"]

    assert [({port["port"] for port in rule["ports"]}, rule.get("to")) for rule in egress] == [
        ({53, 5353}, None),
        ({443, 6443}, None),
        ({9090}, [{"podSelector": {"matchLabels": PROMETHEUS_LABELS}}]),
    ]


def test_a_metrics_source_is_reached_whatever_port_its_pods_listen_on(tmp_path: Path) -> None:
    """A Service of port 80 in front of pods of port 9090: the policy sees the latter."""
    source = {"url": "http://prometheus-server.monitoring.svc"}

    egress = policy(render({"metricsSources": {"default": source}}, tmp_path))["egress"]

    assert any("to" not in rule and "ports" not in rule for rule in egress)


def test_engine_pods_are_selected_only_where_it_is_asked_for(chart: Chart) -> None:
    assert chart("own-prometheus").names("NetworkPolicy") == {"specfleet-operator"}

    rendering = chart("everything")
    engines = rendering.one("NetworkPolicy", "specfleet-engines")
    rule, plugin = engines["spec"]["ingress"]

    assert engines["metadata"]["namespace"] == "team-a"
    assert engines["spec"]["podSelector"]["matchLabels"] == {"app.kubernetes.io/managed-by": "specfleet"}
    assert rule["ports"] == [{"protocol": "TCP", "port": "http"}]
    assert {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "specfleet-system"}},
        "podSelector": {"matchLabels": PROMETHEUS_LABELS},
    } in rule["from"]
    assert {"podSelector": {}} in rule["from"]
    assert plugin["ports"] == [{"protocol": "TCP", "port": "specfleet"}]
    assert [peer for peer in rule["from"] if peer != {"podSelector": {}}] == plugin["from"]


def test_prometheus_scrapes_the_fleets_pods_on_both_ports_with_the_labels_of_the_queries(
    chart: Chart,
) -> None:
    engines = scrape_config(chart("own-prometheus"), "specfleet-engines")
    (discovery,) = engines["kubernetes_sd_configs"]
    kept = {rule.get("target_label"): rule["source_labels"] for rule in engines["relabel_configs"]}

    assert discovery == {
        "role": "pod",
        "selectors": [{"role": "pod", "label": "app.kubernetes.io/managed-by=specfleet"}],
    }
    assert kept["namespace"] == ["__meta_kubernetes_namespace"]
    assert kept["pod"] == ["__meta_kubernetes_pod_name"]
    assert kept["specfleet_dev_pool"] == ["__meta_kubernetes_pod_label_specfleet_dev_pool"]
    assert {
        "source_labels": ["__meta_kubernetes_pod_container_port_name"],
        "regex": "http|specfleet",
        "action": "keep",
    } in (engines["relabel_configs"])


def test_prometheus_scrapes_as_often_as_the_tuner_believes(tmp_path: Path) -> None:
    rendering = render({"prometheus": {"install": True}, "tuning": {"scrapeIntervalSeconds": 2.5}}, tmp_path)
    text = rendering.one("ConfigMap", "specfleet-prometheus")["data"]["prometheus.yml"]

    assert yaml.safe_load(text)["global"]["scrape_interval"] == "2500ms"
    assert rendering.configuration()["tuning"]["scrapeIntervalSeconds"] == 2.5


def test_namespaced_prometheus_looks_only_where_the_operator_does(chart: Chart) -> None:
    (discovery,) = scrape_config(chart("everything"), "specfleet-engines")["kubernetes_sd_configs"]

    assert discovery["namespaces"] == {"names": ["team-a", "team-b"]}


def test_monitors_need_both_the_value_and_the_kind(chart: Chart, tmp_path: Path) -> None:
    kinds = [
        argument
        for kind in ("PodMonitor", "PrometheusRule")
        for argument in ("--api-versions", f"monitoring.coreos.com/v1/{kind}")
    ]

    both = render({"monitoring": {"enabled": True}}, tmp_path, *kinds)
    kind_only = render({}, tmp_path, *kinds)

    assert both.all("PodMonitor")
    assert both.all("PrometheusRule")
    assert not kind_only.all("PodMonitor")
    assert not chart("everything").all("PodMonitor")
