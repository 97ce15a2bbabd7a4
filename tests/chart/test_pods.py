"""The chart's own pods: restricted, probed, restarted by a changed configuration and by nothing else."""

from collections.abc import Callable
from pathlib import Path

from rendering import Rendered, render

Chart = Callable[[str], Rendered]


def test_every_pod_meets_the_restricted_pod_security_standard(rendered: Rendered) -> None:
    for name, spec in rendered.pod_specs():
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), name
        assert all(set(volume) & {"configMap", "emptyDir", "projected"} for volume in spec["volumes"]), name
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name


def test_every_pod_says_what_it_needs_and_mounts_its_token_on_purpose(rendered: Rendered) -> None:
    for name, spec in rendered.pod_specs():
        assert spec["automountServiceAccountToken"] is True, name
        assert all(container["resources"]["requests"] for container in spec["containers"]), name
    for account in rendered.all("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def test_one_operator_runs_at_a_time(rendered: Rendered) -> None:
    spec = rendered.one("Deployment", "specfleet-operator")["spec"]

    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_a_busy_start_counts_against_the_startup_probe_and_the_api_server_only_against_readiness(
    chart: Chart,
) -> None:
    container = chart("defaults").one("Deployment", "specfleet-operator")["spec"]["template"]["spec"][
        "containers"
    ][0]

    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_changed_configuration_restarts_the_operator_and_another_value_does_not(
    chart: Chart, tmp_path: Path
) -> None:
    def checksum(rendering: Rendered) -> str:
        template = rendering.one("Deployment", "specfleet-operator")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    slower = render({"resyncSeconds": 900}, tmp_path)
    monitored = render({"monitoring": {"enabled": True}}, tmp_path)

    assert checksum(slower) != checksum(chart("defaults"))
    assert checksum(monitored) == checksum(chart("defaults"))


def test_the_cluster_may_choose_the_user(chart: Chart) -> None:
    for _, spec in chart("everything").pod_specs():
        assert "runAsUser" not in spec["securityContext"]


def test_pods_of_the_chart_never_look_like_pods_of_a_fleet(rendered: Rendered) -> None:
    for body in rendered.all("Deployment"):
        labels = body["spec"]["template"]["metadata"]["labels"]

        assert labels["app.kubernetes.io/managed-by"] == "Helm"


def test_a_long_release_name_still_gives_valid_names(tmp_path: Path) -> None:
    rendering = render(
        {"fullnameOverride": "a-very-long-name-for-an-operator-of-language-model-fleets"}, tmp_path
    )

    assert max(len(body["metadata"]["name"]) for body in rendering.all("Service")) <= 63
