"""One deployment of a real vLLM, one pod of it, and what that counts."""

import json
from dataclasses import dataclass
from typing import Any

from tests.e2e.support import Kube, condition, engine_pods, identities, wait_and_time, wait_for

# The first comes from the prompt; 60 are 10 full steps at depth 5, and 20 at depth 2.
TOKENS = 61
HTTP, PLUGIN = 8000, 9404
DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"


@dataclass(frozen=True)
class Engine:
    """One deployment of one pod."""

    kube: Kube
    namespace: str
    name: str

    def pods(self) -> list[dict[str, Any]]:
        return engine_pods(self.kube, self.namespace, self.name)

    def identities(self) -> dict[str, int]:
        return identities(self.pods())

    def pod(self) -> str:
        (found,) = self.pods()
        return str(found["metadata"]["name"])

    def patch(self, **spec: Any) -> None:
        self.kube.patch("specdep", self.namespace, self.name, {"spec": spec})

    def wait_condition(self, kind: str, reason: str, *, seconds: float = 60) -> str:
        """Wait until a condition stands for that reason; give its message."""

        def message() -> str | None:
            found = condition(self.kube.get("specdep", self.namespace, self.name) or {}, kind)
            return str(found["message"]) if found.get("reason") == reason else None

        return wait_for(f"{self.name}: {kind} is {reason}", message, seconds=seconds)

    def complete(self, prompt: str, tokens: int = TOKENS) -> str:
        body = {"model": self.name, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        path = self.kube.service(self.namespace, self.name, "/v1/completions")
        answer = self.kube.proxy.post(path, json=body | {"ignore_eos": True})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["choices"][0]["text"])

    def page(self, pod: str, port: int) -> dict[str, float]:
        """Read one page: names, specfleet's with their labels and vLLM's without -> value."""
        path = self.kube.pod(self.namespace, pod, "/metrics", port)
        text = self.kube.proxy.get(path).raise_for_status().text
        lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        found: dict[str, float] = {}
        for series, _, value in lines:
            name = series.partition("{")[0] if series.startswith("vllm:") else series
            found[name] = found.get(name, 0.0) + float(value)
        return found

    def document(self) -> dict[str, Any]:
        """Give the schedule that the operator has written."""
        name = f"{self.name}-main-active-schedule"
        config_map = self.kube.get("configmap", self.namespace, name)
        assert config_map is not None
        return dict(json.loads(config_map["data"]["schedule.json"]))

    def pin(self, depth: int) -> None:
        self.patch(tuning={"schedule": [{"depth": depth}]})

    def wait_written(self, depth: int) -> float:
        """Wait until the operator has written that one depth; give the last moment when it had not."""

        def is_written() -> bool:
            return bool(self.document()["table"] == [{"depth": depth}])

        return wait_and_time(f"{self.name}: depth {depth} is written", is_written, seconds=60)[0]

    def wait_pinned(self, depth: int) -> None:
        """Wait until the engine reports a schedule of that one depth."""
        pod = self.pod()

        def in_force() -> bool:
            document = self.document()
            series = f'specfleet_schedule_version{{fence="{document["fence"]}"}}'
            version = self.page(pod, PLUGIN).get(series)
            return (document["table"], version) == ([{"depth": depth}], document["version"])

        wait_for(f"{self.name}: depth {depth} is in force", in_force, seconds=60, every=0.2)


def steps_at(depth: int) -> str:
    """Name the series of decode steps at one depth."""
    return f'specfleet_steps_total{{depth="{depth}"}}'


class Counts:
    """What one engine has counted since."""

    def __init__(self, engine: Engine, *ports: int) -> None:
        self._engine, self._ports, self._pod = engine, ports or (HTTP, PLUGIN), engine.pod()
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        pages = (self._engine.page(self._pod, port) for port in self._ports)
        return {name: value for page in pages for name, value in page.items()}

    def since(self) -> dict[str, float]:
        changed = {name: value - self._before.get(name, 0.0) for name, value in self._read().items()}
        return {name: value for name, value in changed.items() if value}

    def of(self, tokens: int) -> dict[str, float]:
        """Give the counts once they hold so many generated tokens: vLLM counts after it has answered."""
        series = "vllm:generation_tokens_total"
        return wait_for(
            f"{tokens} tokens are counted",
            lambda: counts if (counts := self.since()).get(series) == tokens else None,
            seconds=10,
            every=0.1,
        )
