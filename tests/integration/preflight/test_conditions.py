"""What the init containers say at their end is what users read in the conditions of the resource."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.integration.download.hub_server import COMMIT, OLDER, Hub, serving
from tests.integration.engine.checkpoints import save_random
from tests.integration.engine.proposer_checkpoints import edit_config, save_random_eagle
from tests.integration.preflight.command import arguments
from tests.unit.planning.builders import (
    NOON,
    a_configuration,
    a_pod,
    a_resource,
    an_empty_cluster,
    planned,
    running,
)

from specfleet.planning.plan import plan
from specfleet.planning.status import status
from specfleet_download import __main__ as download
from specfleet_preflight import __main__ as preflight

RESOURCE = a_resource(
    model={"uri": "hf://org/model", "revision": COMMIT, "credentialsSecret": "hf-token"},
    engine={"type": "vllm"},
    speculation={"method": "eagle", "proposer": {"uri": "pvc://heads/v1"}},
)
(POOL,) = planned(RESOURCE, an_empty_cluster()).pools
FILES = {"config.json": b"{}", "model.safetensors": b"weights" * 400}


def conditions(container: str, exit_code: int, said: str) -> dict[str, dict[str, Any]]:
    """Let a pod of the resource end one of its init containers so, and read the conditions."""
    pod = a_pod(container={"ready": False, "state": {"waiting": {"reason": "PodInitializing"}}})
    pod["metadata"]["labels"]["specfleet.dev/fingerprint"] = POOL.fingerprint
    ended = {"terminated": {"exitCode": exit_code, "message": said}}
    pod["status"]["initContainerStatuses"] = [{"name": container, "ready": exit_code == 0, "state": ended}]
    observed = replace(running(RESOURCE), pods=(pod,))
    found = status(RESOURCE, observed, plan(RESOURCE, a_configuration(), observed, NOON), NOON)
    return {entry["type"]: entry for entry in found["conditions"]}


@pytest.mark.parametrize(
    ("hub", "revision", "words"),
    [
        pytest.param(Hub(FILES, needs_token="right"), COMMIT, "the hub refuses the token (401)", id="401"),
        pytest.param(Hub(FILES, gated=True), COMMIT, "is gated: accept its terms", id="gated"),
        pytest.param(Hub(FILES), OLDER, f"has no revision {OLDER}", id="no-revision"),
        pytest.param(
            Hub(FILES, replaced={"model.safetensors": b"cut"}), COMMIT, "with another size", id="truncated"
        ),
    ],
)
def test_a_download_that_fails_is_degraded_with_what_to_change(
    tmp_path: Path, hub: Hub, revision: str, words: str
) -> None:
    said = tmp_path / "termination-log"
    said.touch()
    arguments = ["--repository", "org/model", "--revision", revision, "--into", str(tmp_path / "m" / "r")]
    with serving(hub), pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setenv("HF_TOKEN", "wrong")
        code = download.main([*arguments, "--field", "model"], said)

    entry = conditions("download-model", code, said.read_text())["Degraded"]

    assert (entry["status"], entry["reason"]) == ("True", "DownloadFailed")
    assert "it cannot be fetched: hf://org/model" in entry["message"]
    assert words in entry["message"]


@pytest.mark.parametrize("hidden", [128, 64], ids=["fits", "does-not-fit"])
def test_the_verdict_over_a_pair_becomes_proposer_compatible(tmp_path: Path, hidden: int) -> None:
    model, head = save_random(tmp_path / "model"), save_random_eagle(tmp_path / "head")
    edit_config(head, hidden_size=hidden, max_position_embeddings=512)
    said = tmp_path / "termination-log"
    said.touch()
    found = conditions("preflight", preflight.main(arguments(model, head), said), said.read_text())

    if hidden == 128:
        assert found["ProposerCompatible"]["reason"] == "PreflightPassed"
        assert found["Degraded"]["status"] == "False"
    else:
        assert found["ProposerCompatible"]["reason"] == "ProposerRefused"
        assert "its hidden size is 64, the model's 128" in found["ProposerCompatible"]["message"]
        assert found["Degraded"]["reason"] == "PreflightFailed"
