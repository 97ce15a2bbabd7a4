"""What to apply for a fleet of real vLLMs: the real model, tiny ones, and one that ignores its schedule."""

from dataclasses import dataclass
from typing import Any

from tests.e2e.vllm_checkpoints import CLAIM, POSITIONS, TARGET
from tests.e2e.vllm_engine import Engine

MOST = 5


@dataclass(frozen=True)
class Fleet:
    """``smollm2`` is the real model; the others are tiny, and all their drafts are right."""

    smollm2: Engine
    draft_model: Engine
    eagle3: Engine
    medusa: Engine
    deaf: Engine

    @property
    def live(self) -> tuple[Engine, ...]:
        return (self.smollm2, self.draft_model, self.eagle3)


def real(namespace: str, name: str, image: str, **spec: Any) -> dict[str, Any]:
    """Write a deployment of SmolLM2; ``spec`` keys replace whole parts of the spec."""
    # A start takes 20 s of a core: other tests' pods, of 50m and more, go first.
    resources = {"requests": {"cpu": "20m", "memory": "1Gi"}}
    return {
        "apiVersion": "specfleet.dev/v1alpha1",
        "kind": "SpeculativeDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "model": {"uri": "file:///models/smollm2"},
            "engine": {
                "type": "vllm",
                "version": "0.32.0",
                "image": image,
                # bfloat16 rounds a batch of several positions differently, and near ties may fall otherwise.
                "dtype": "float32",
                "maxModelLen": 1024,
                "maxNumSeqs": 8,
                "kvCacheMib": 256,
                "extraArgs": ["--enforce-eager"],
            },
            "speculation": {"method": "ngram", "depth": {"initial": MOST, "max": MOST}},
            "tuning": {"mode": "Enforce", "schedule": [{"depth": MOST}]},
            "pools": [{"name": "main", "replicas": 1, "template": {"resources": resources}}],
            **spec,
        },
    }


def tiny(namespace: str, name: str, image: str, method: str, proposer: str, **spec: Any) -> dict[str, Any]:
    """Write a deployment of the tiny target with a proposer of the claim."""
    document = real(namespace, name, image, **spec)
    document["spec"]["model"] = {"uri": f"pvc://{CLAIM}/{TARGET}"}
    document["spec"]["engine"] |= {"maxModelLen": POSITIONS, "kvCacheMib": 32}
    document["spec"]["speculation"] |= {"method": method, "proposer": {"uri": f"pvc://{CLAIM}/{proposer}"}}
    return document


# A plug-in of vLLM's own kind, which takes away what specfleet's has put there.
DEAF = """\
from vllm.v1.core.sched.scheduler import Scheduler

own = Scheduler.schedule


def schedule(self, *arguments, **named):
    if self.dynamic_sd_lookup:
        self.dynamic_sd_lookup = [self.num_spec_tokens] * len(self.dynamic_sd_lookup)
    return own(self, *arguments, **named)


def register():
    Scheduler.schedule = schedule
"""
SITE = "/opt/specfleet/lib/python3.11/site-packages"


def deaf(namespace: str, name: str, image: str) -> list[dict[str, object]]:
    """Write a vLLM that reports the schedule and drafts as deep as it can all the same."""
    files = {
        "deaf.py": DEAF,
        "METADATA": "Metadata-Version: 2.1\nName: deaf\nVersion: 1\n",
        "entry_points.txt": "[vllm.general_plugins]\ndeaf = deaf:register\n",
    }
    document = tiny(namespace, name, image, "draftModel", TARGET)
    document["spec"]["pools"][0]["template"] |= {
        "volumes": [{"name": "deaf", "configMap": {"name": "deaf"}}],
        "volumeMounts": [
            {"name": "deaf", "mountPath": f"{SITE}/deaf-1.dist-info"},
            {"name": "deaf", "mountPath": f"{SITE}/deaf.py", "subPath": "deaf.py"},
        ],
    }
    metadata = {"name": "deaf", "namespace": namespace}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}, document]
