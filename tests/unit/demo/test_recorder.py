"""What the recorder reads of the pods of any engine."""

import asyncio
from typing import Any, cast

from dev.demo.kubernetes import Api, metrics_path
from dev.demo.plan import PLANS
from dev.demo.recorder import Recorder


def pod(name: str, *ports: int, ready: bool = True) -> dict[str, Any]:
    engine = {
        "name": "engine",
        "ports": [{"name": f"port-{number}", "containerPort": number} for number in ports],
    }
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "sidecar", "ports": [{"containerPort": 9000}]}, engine]},
        "status": {"containerStatuses": [{"name": "engine", "restartCount": 2, "ready": ready}]},
    }


class Answers:
    """An API server that knows some pods of engines, their pages, and nothing else."""

    def __init__(self, pods: list[dict[str, Any]], pages: dict[str, str]) -> None:
        self._pods = pods
        self._pages = pages

    async def get(self, path: str) -> dict[str, Any]:
        return {"items": self._pods if "deployment=" in path else []}

    async def text(self, path: str) -> str:
        return self._pages[path]


def sample_of(answers: Answers) -> dict[str, Any]:
    recorder = Recorder(cast("Api", answers), PLANS["vllm"], lambda: 3)
    return asyncio.run(recorder.take())


def page_of(name: str, port: int) -> str:
    return metrics_path("specfleet-demo", name, port)


def test_a_pod_is_read_on_all_ports_of_its_engine() -> None:
    pages = {
        page_of("a", 8000): 'vllm:num_requests_running{engine="0"} 2.0',
        page_of("a", 9404): 'specfleet_steps_total{depth="5"} 7.0\n',
    }

    sample = sample_of(Answers([pod("a", 8000, 9404)], pages))

    assert "problem" not in sample
    assert sample["pods"] == {"a": {"running": 2.0, "steps": {"5": 7.0}}}
    assert sample["restarts"] == {"uid-a": 2}


def test_a_pod_that_does_not_serve_yet_counts_with_its_restarts_only() -> None:
    sample = sample_of(Answers([pod("a", 8000, ready=False)], {}))

    assert (sample["pods"], sample["restarts"]) == ({}, {"uid-a": 2})
