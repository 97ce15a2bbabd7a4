"""The built-in engine in its image, with the real model: text, chat, a live push, and a drain."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.support import (
    REPOSITORY,
    Kube,
    Release,
    condition,
    engine_pods,
    identities,
    is_ready,
    schedule_version,
    wait_for,
    wait_ready,
)

pytestmark = pytest.mark.timeout(900)

NAME = "smollm2"
EXAMPLE = REPOSITORY / "examples" / "smollm2.yaml"
# The model goes on with the list, so that drafts from the text itself are accepted.
REPETITIVE = "red, green, blue, red, green, blue, red, green, blue, red, green, blue,"
TOKENS = 48
# A stream that ends well after the pod's preStop pause (15 s) and well within its grace period (150 s).
STREAM_SECONDS = 35.0
LONGEST = 1900


def example(namespace: str, path: Path = EXAMPLE) -> dict[str, Any]:
    """Give the example for one namespace, small enough to be scheduled beside other fleets."""
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["metadata"]["namespace"] = namespace
    document["spec"]["pools"][0]["template"]["resources"]["requests"] = {"cpu": "100m", "memory": "1Gi"}
    return document


@pytest.fixture(scope="module")
def served(kube: Kube, release: Release) -> Iterator[str]:
    """The example, Ready; gives its namespace."""
    namespace = f"e2e-builtin-{uuid.uuid4().hex[:6]}"
    kube.run("create", "namespace", namespace)
    kube.apply(example(namespace))
    wait_ready(kube, namespace, NAME, seconds=300)
    yield namespace
    kube.run("delete", "specdep", "--all", "-n", namespace, "--wait=false")
    kube.run("delete", "namespace", namespace, "--wait=false")


def greedy(kube: Kube, namespace: str, prompt: str, tokens: int) -> str:
    body = {"model": NAME, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    answer = kube.proxy.post(kube.service(namespace, NAME, "/v1/completions"), json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def chunks(lines: Iterator[str]) -> Iterator[str]:
    """Give the data of each server-sent event."""
    return (line.removeprefix("data: ") for line in lines if line.startswith("data: "))


def only_pod(kube: Kube, namespace: str) -> str:
    (pod,) = engine_pods(kube, namespace, NAME)
    return str(pod["metadata"]["name"])


def steps(metrics: Mapping[str, float], depth: int) -> float:
    return metrics.get(f'specfleet_steps_total{{depth="{depth}"}}', 0.0)


def pin(kube: Kube, namespace: str, pod: str, depth: int) -> None:
    """Pin one depth and wait until the pod has it in force."""
    kube.patch("specdep", namespace, NAME, {"spec": {"tuning": {"schedule": [{"depth": depth}]}}})

    def in_force() -> bool:
        config_map = kube.get("configmap", namespace, f"{NAME}-main-active-schedule") or {}
        document = json.loads(config_map["data"]["schedule.json"])
        at = schedule_version(kube.metrics(namespace, pod))
        return bool(document["table"] == [{"depth": depth}] and at == document["version"])

    wait_for(f"depth {depth} is in force", in_force, seconds=90)


def test_the_model_knows_the_capital_of_france(kube: Kube, served: str) -> None:
    text = greedy(kube, served, "The capital of France is", 8)

    assert text.startswith(" Paris")


def test_a_chat_streams_the_text_that_it_gives_at_once(kube: Kube, served: str) -> None:
    body = {
        "model": NAME,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_tokens": 24,
        "temperature": 0,
    }
    path = kube.service(served, NAME, "/v1/chat/completions")

    whole = kube.proxy.post(path, json=body).raise_for_status().json()
    with kube.proxy.stream("POST", path, json=body | {"stream": True}) as answer:
        parts = list(chunks(answer.iter_lines()))

    assert "Paris" in whole["choices"][0]["message"]["content"]
    assert parts[-1] == "[DONE]"
    deltas = [json.loads(part)["choices"][0]["delta"].get("content") or "" for part in parts[:-1]]
    assert len([delta for delta in deltas if delta]) > 1
    assert "".join(deltas) == whole["choices"][0]["message"]["content"]


def test_a_deeper_pin_takes_fewer_steps_for_the_same_text_and_restarts_nothing(
    kube: Kube, served: str
) -> None:
    pod = only_pod(kube, served)
    before = identities(engine_pods(kube, served, NAME))
    texts, taken = {}, {}

    for depth in (0, 5):
        pin(kube, served, pod, depth)
        at = steps(kube.metrics(served, pod), depth)
        texts[depth] = greedy(kube, served, REPETITIVE, TOKENS)
        taken[depth] = steps(kube.metrics(served, pod), depth) - at

    print(f"steps for {TOKENS} tokens: {taken}")
    assert texts[5] == texts[0]
    # The first token comes from the prefill; without drafts each other one takes a step.
    assert taken[0] >= TOKENS - 1
    assert 0 < taken[5] <= taken[0] / 2
    assert identities(engine_pods(kube, served, NAME)) == before


@pytest.mark.alone  # the length of its stream is taken from the speed just before
def test_a_stream_outlives_the_end_of_its_pod_while_new_work_is_refused(kube: Kube, served: str) -> None:
    pod = only_pod(kube, served)
    pin(kube, served, pod, 0)
    started = time.monotonic()
    greedy(kube, served, REPETITIVE, TOKENS)
    tokens = min(LONGEST, int(TOKENS * STREAM_SECONDS / (time.monotonic() - started)))
    path = kube.pod(served, pod, "/v1/completions")
    body = {"model": NAME, "prompt": "Once upon a time", "temperature": 0, "ignore_eos": True}
    streamed = {"max_tokens": tokens, "stream": True, "stream_options": {"include_usage": True}}
    parts: list[str] = []
    refusals: list[tuple[int, bool]] = []

    with kube.proxy.stream("POST", path, json=body | streamed) as answer:
        for part in chunks(answer.iter_lines()):
            parts.append(part)
            if len(parts) == 1:
                kube.run("delete", "pod", pod, "-n", served, "--wait=false")
            if len(parts) % 50 == 0 and not refusals and not is_open(kube, served, pod):
                refused = kube.proxy.post(path, json=body | {"max_tokens": 1})
                refusals.append((refused.status_code, "retry-after" in refused.headers))

    assert parts[-1] == "[DONE]"
    usages = [json.loads(part).get("usage") for part in parts[:-1]]
    assert [usage["completion_tokens"] for usage in usages if usage] == [tokens]
    assert refusals == [(503, True)], "the stream ended before the pod was told to"
    wait_for(
        "another pod serves in its place",
        lambda: [one for one in engine_pods(kube, served, NAME) if one["metadata"]["name"] != pod],
        seconds=60,
    )


def is_open(kube: Kube, namespace: str, pod: str) -> bool:
    """Ask a pod itself whether it takes new work."""
    return kube.proxy.get(kube.pod(namespace, pod, "/ready")).status_code == 200


# The model as its own draft model: the tokenizer fits, and what it drafts is what it would say.
ITSELF = {"uri": "file:///models/smollm2"}


def draft_by(kube: Kube, namespace: str, method: str) -> None:
    """Let the model's own weights draft by that method."""
    speculation = {"method": method, "proposer": ITSELF, "ngram": None}
    # Two copies of the weights must fit into the example's memory limit.
    engine = {"kvCacheMib": 256}
    kube.patch("specdep", namespace, NAME, {"spec": {"speculation": speculation, "engine": engine}})


def compatible(kube: Kube, namespace: str, status: str, reason: str) -> str | None:
    """Give the message of ProposerCompatible once it stands as expected."""
    found = condition(kube.get("specdep", namespace, NAME) or {}, "ProposerCompatible")
    return str(found["message"]) if (found.get("status"), found.get("reason")) == (status, reason) else None


def test_a_proposer_that_does_not_fit_is_told_by_name_and_takes_no_traffic(kube: Kube, served: str) -> None:
    wait_ready(kube, served, NAME)
    before = identities(engine_pods(kube, served, NAME))

    draft_by(kube, served, "eagle3")
    message = wait_for(
        "the pair is refused",
        lambda: compatible(kube, served, "False", "ProposerRefused"),
        seconds=180,
    )

    assert "/models/smollm2" in message and "eagle3" in message
    ready = {pod["metadata"]["uid"] for pod in engine_pods(kube, served, NAME) if is_ready(pod)}
    assert ready == before.keys()
    greedy(kube, served, "The capital of France is", 1)


def test_a_draft_model_that_fits_takes_over_and_spares_steps(kube: Kube, served: str) -> None:
    draft_by(kube, served, "draftModel")
    wait_ready(kube, served, NAME, seconds=300)
    wait_for("the pair is accepted", lambda: compatible(kube, served, "True", "ProposerLoaded"), seconds=30)
    wait_for("the old pods are gone", lambda: len(engine_pods(kube, served, NAME)) == 1, seconds=60)
    pod = only_pod(kube, served)
    pin(kube, served, pod, 5)
    at = steps(kube.metrics(served, pod), 5)

    # Nothing repeats here: only a proposer that knows the model can guess.
    greedy(kube, served, "Once upon a time, in a small town by the sea,", TOKENS)
    taken = steps(kube.metrics(served, pod), 5) - at

    print(f"steps for {TOKENS} tokens with the model as its own draft model: {taken}")
    # Six tokens a step, if every draft is accepted; some room for near ties.
    assert 0 < taken <= TOKENS / 4
