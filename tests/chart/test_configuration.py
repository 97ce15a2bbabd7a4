"""What the chart writes for the operator is what the operator reads, and secrets stay files."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rendering import Rendered, render, try_to_render
from value_sets import EVERYTHING, SECURED_SOURCE

from specfleet.api.configuration import Configuration, EngineImages

Chart = Callable[[str], Rendered]


def test_every_set_of_values_gives_a_configuration_that_the_operator_accepts(rendered: Rendered) -> None:
    Configuration.model_validate(rendered.configuration())


def test_the_charts_defaults_are_the_operators_defaults(chart: Chart) -> None:
    written = Configuration.model_validate(chart("defaults").configuration())

    assert written == Configuration(
        images=EngineImages(
            builtin="specfleet/engine:0.1.0",
            simulated="specfleet/simulated:0.1.0",
            vllm="vllm/vllm-openai:v{version}",
            sglang="lmsysorg/sglang:v{version}",
            vllm_plugin="specfleet/vllm-plugin:0.1.0",
            preflight="specfleet/preflight:0.1.0",
        )
    )


def test_ceilings_accounts_namespaces_and_pace_reach_the_operator(chart: Chart) -> None:
    written = Configuration.model_validate(chart("everything").configuration())

    assert written.watch_namespaces == ("team-a", "team-b")
    assert written.allowed_service_accounts == ("model-reader",)
    assert (written.limits.max_replicas, written.limits.max_gpus) == (12, 4)
    assert written.tuning.scrape_interval_seconds == 5
    assert written.tuning.probe_unknown_interval_seconds == 30
    assert written.images.simulated == "mirror/simulated:1"
    assert written.model_hub.endpoint == "https://hub.mirror.example"


def test_secrets_of_a_metrics_source_are_mounted_and_named_by_path(chart: Chart) -> None:
    rendering = chart("secured-source")
    sources = Configuration.model_validate(rendering.configuration()).metrics_sources
    (_, pod), *_ = rendering.pod_specs()
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}

    assert sources["default"].basic_password_file == mounts["metrics-default"] + "/password"
    assert sources["default"].ca_file == mounts["metrics-default"] + "/ca.crt"
    assert sources["token"].bearer_token_file == mounts["metrics-token"] + "/token"
    assert "metrics-plain" not in volumes
    assert volumes["metrics-token"]["projected"]["sources"] == [
        {"secret": {"name": "thanos-token", "items": [{"key": "token", "path": "token"}]}}
    ]


def test_the_charts_prometheus_becomes_the_default_metrics_source(chart: Chart) -> None:
    sources = chart("own-prometheus").configuration()["metricsSources"]

    assert sources == {"default": {"url": "http://specfleet-prometheus.specfleet-system.svc:9090"}}


def test_two_default_metrics_sources_are_refused_with_the_cure(tmp_path: Path) -> None:
    outcome = try_to_render({**EVERYTHING, **SECURED_SOURCE}, tmp_path)

    assert outcome.returncode != 0
    assert "remove metricsSources.default, or set prometheus.install=false" in outcome.stderr


@pytest.mark.parametrize(
    "times",
    [
        {"durationSeconds": 10},
        {"durationSeconds": 9.5},
        {"retrySeconds": 10},
        {"renewDeadlineSeconds": 1.5},
    ],
)
def test_times_of_the_lease_out_of_order_are_refused_with_the_cure(
    times: dict[str, float], tmp_path: Path
) -> None:
    outcome = try_to_render({"leaderElection": times}, tmp_path)

    assert outcome.returncode != 0
    assert "leaderElection.durationSeconds must be more than renewDeadlineSeconds" in outcome.stderr


def test_fractions_of_seconds_for_the_lease_are_taken(tmp_path: Path) -> None:
    times = {"durationSeconds": 4, "renewDeadlineSeconds": 2.5, "retrySeconds": 0.5}

    configuration = render({"leaderElection": times}, tmp_path).configuration()

    assert times.items() <= configuration["leaderElection"].items()


def test_large_numbers_stay_integers(tmp_path: Path) -> None:
    rendering = render({"runAsUser": 1000650000, "resyncSeconds": 86400}, tmp_path)
    (_, pod), *_ = rendering.pod_specs()

    assert pod["securityContext"]["runAsUser"] == 1000650000
    assert rendering.configuration()["resyncSeconds"] == 86400
