"""What users are told about pods that do not serve."""

from typing import Any

import pytest
from tests.unit.planning.builders import a_pod

from specfleet.planning.pod_failures import PodFailure, pod_failures


def failures(*pods: dict[str, Any]) -> tuple[PodFailure, ...]:
    return pod_failures(pods, {"interactive"})


def crashed(message: str = "", *, waiting: str | None = "CrashLoopBackOff", **ended: Any) -> dict[str, Any]:
    """A container that has ended once and is waiting, or runs again without being ready."""
    state: dict[str, Any] = {"running": {}} if waiting is None else {"waiting": {"reason": waiting}}
    terminated = {"exitCode": 1, "reason": "Error", "message": message, **ended}
    return {"ready": False, "restartCount": 1, "state": state, "lastState": {"terminated": terminated}}


def waiting(reason: str) -> dict[str, Any]:
    return {
        "ready": False,
        "state": {"waiting": {"reason": reason, "message": "secret.registry.test said no"}},
    }


@pytest.mark.parametrize(
    "message",
    [
        "specfleet_engine: error: --model /models/x: no such directory",
        "INFO loading\nusage: specfleet_engine\nspecfleet_engine: --model /models/x: no such directory\n",
    ],
)
def test_the_last_line_of_an_engine_that_cannot_start_is_quoted(message: str) -> None:
    (failure,) = failures(a_pod(container=crashed(message)))

    assert failure == PodFailure(
        "EngineFailed",
        "pool interactive: pod chat-interactive-active-1: "
        "the engine cannot start: --model /models/x: no such directory",
    )


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("", id="none"),
        pytest.param("Traceback: token=hf_secret", id="not-ours"),
        pytest.param("specfleet_engine: fine\nprompt: hf_secret", id="not-the-last-line"),
        pytest.param("specfleet_engine: error: hf_secret\x1b[2J", id="not-printable"),
    ],
)
def test_no_other_text_of_a_container_reaches_the_user(message: str) -> None:
    (failure,) = failures(a_pod(container=crashed(message, exitCode=3)))

    assert "hf_secret" not in failure.message
    assert "exit code 3" in failure.message
    assert "kubectl logs" in failure.message


def test_a_long_line_of_an_engine_is_cut() -> None:
    (failure,) = failures(a_pod(container=crashed("specfleet_engine: " + "tensor " * 1000)))

    assert "cannot start: tensor tensor" in failure.message
    assert len(failure.message) < 500


# The ends of logs as torch writes them; whatever else stands there is the engine's own.
CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.1 GiB in total"
ROCM = "prompt: hf_secret\nHIP out of memory. Tried to allocate 512.00 MiB."


@pytest.mark.fault("vllm#8073", "vllm#8731")
@pytest.mark.parametrize(
    ("container", "words"),
    [
        (crashed(exitCode=137, reason="OOMKilled"), "(OOMKilled): raise its memory limit"),
        (crashed(CUDA), "no more memory on its device"),
        (crashed(ROCM, waiting=None), "no more memory on its device"),
    ],
    ids=["host", "cuda", "rocm-between-restarts"],
)
def test_an_engine_that_ran_out_of_memory_is_told_apart_with_what_takes_less(
    container: dict[str, Any], words: str
) -> None:
    (failure,) = failures(a_pod(container=container))

    assert failure.reason == "OutOfMemory"
    assert words in failure.message
    assert "with drafts speculation.depth.max too, or write method none" in failure.message
    assert "hf_secret" not in failure.message


ARCTIC = (
    "prompt: hf_secret\nImportError: Arctic Inference is required for suffix decoding. Install via "
    "`pip install arctic-inference==0.1.1`.\n"
)
N_PREDICT = (
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n  Value error, "
    "num_speculative_tokens:5 must be divisible by n_predict=2 [type=value_error, input_value=hf_secret]\n"
)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (ARCTIC, "needs the package arctic-inference in vLLM's image: name an engine.image that has it"),
        (N_PREDICT, "the model's 2 prediction layers over and over: write a multiple of 2, or less, into"),
    ],
    ids=["suffix", "mtp"],
)
def test_what_vllm_alone_can_see_of_a_method_is_told_with_what_to_change(log: str, words: str) -> None:
    """The first line as vLLM 0.32 printed it, the second by its config/speculative.py."""
    (failure,) = failures(a_pod(container=crashed(log)))

    assert failure.reason == "EngineFailed"
    assert words in failure.message
    assert "hf_secret" not in failure.message


def test_an_engine_that_ended_well_lacked_no_memory_whatever_its_log_says() -> None:
    assert failures(a_pod(container=crashed(CUDA, exitCode=0, waiting=None))) == ()


def test_an_engine_that_restarts_counts_until_it_is_ready() -> None:
    again = crashed("specfleet_engine: bad model", waiting=None)

    assert failures(a_pod(container=again))
    assert failures(a_pod(container={**again, "ready": True})) == ()


def test_an_engine_that_starts_for_the_first_time_is_no_failure() -> None:
    assert failures(a_pod(container={"ready": False, "state": {"running": {}}})) == ()
    assert failures(a_pod(container=waiting("ContainerCreating"))) == ()


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_named_without_the_registrys_words(reason: str) -> None:
    (failure,) = failures(a_pod(container=waiting(reason)))

    assert "image example.test/engine:1 cannot be pulled" in failure.message
    assert "said no" not in failure.message


def test_a_missing_secret_or_config_map_is_a_failure_to_create_the_container() -> None:
    (failure,) = failures(a_pod(container=waiting("CreateContainerConfigError")))

    assert "every Secret, ConfigMap and claim" in failure.message


def test_a_pod_without_a_node_has_the_schedulers_words() -> None:
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}

    (failure,) = failures(a_pod(phase="Pending", conditions=[scheduled]))

    assert failure.reason == "Unschedulable"
    assert failure.message.endswith(f"no node can take it: {words}")


def test_one_cause_of_several_pods_is_told_once() -> None:
    (failure,) = failures(*(a_pod(f"chat-{number}", container=crashed()) for number in (2, 1, 3)))

    assert "pod chat-1 and 2 more" in failure.message


@pytest.mark.parametrize(
    "gone",
    [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"phase": "Failed"}, {"pool": "another"}],
    ids=["deleted", "replaced", "of-no-pool-of-the-spec"],
)
def test_pods_that_go_away_do_not_count(gone: dict[str, Any]) -> None:
    assert failures(a_pod(container=crashed(), **gone)) == ()


def initialising(name: str, *, secret: str | None = None, **status: Any) -> dict[str, Any]:
    pod = a_pod(container={"ready": False, "state": {"waiting": {"reason": "PodInitializing"}}})
    pod["status"]["initContainerStatuses"] = [{"name": name, "ready": False, **status}]
    reference = {"secretKeyRef": {"name": secret, "key": "token"}}
    env = [] if secret is None else [{"name": "HF_TOKEN", "valueFrom": reference}]
    pod["spec"] = {"initContainers": [{"name": name, "env": env}], "containers": [{"name": "engine"}]}
    return pod


@pytest.mark.fault("ray-project/kuberay#3517")
def test_a_download_that_fails_is_told_in_its_own_words() -> None:
    words = "hf://org/model: the hub refuses the token (401): see that the Secret holds a token"
    ended = {"terminated": {"exitCode": 1, "message": f"specfleet_download: {words}\n"}}
    pod = initialising("download-model", state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended)

    (failure,) = failures(pod)

    assert failure.reason == "DownloadFailed"
    assert failure.message.endswith(f"it cannot be fetched: {words}")


@pytest.mark.fault("ray-project/kuberay#3517")
def test_a_missing_token_is_told_by_the_name_of_its_secret() -> None:
    pod = initialising(
        "download-model", secret="hf-token", state={"waiting": {"reason": "CreateContainerConfigError"}}
    )

    (failure,) = failures(pod)

    assert failure.reason == "DownloadFailed"
    assert "Secret hf-token with key token is missing: create it in this namespace" in failure.message


def test_an_init_container_that_is_at_work_or_done_is_no_failure() -> None:
    done = {"terminated": {"exitCode": 0, "message": "specfleet_preflight: fits: weights"}}

    assert failures(initialising("download-model", state={"running": {}})) == ()
    assert failures(initialising("preflight", ready=True, state=done)) == ()


def test_a_download_that_runs_out_of_memory_is_told_apart() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}

    (failure,) = failures(initialising("download-proposer", state=ended))

    assert "download-proposer was killed for want of memory" in failure.message
