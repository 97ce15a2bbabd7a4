"""Tiny checkpoints that vLLM serves too, and a claim of the cluster that holds them.

The target walks a fixed cycle through 64 tokens, and its proposers know it: every draft is accepted, so each
count is known beforehand. Construction: reference/checkpoints.md, section 6, family C.
"""

import base64
from pathlib import Path
from typing import Any

from tests.e2e.support import Kube, wait_for
from tests.integration.engine.proposer_checkpoints import (
    CYCLE,
    cycle_target,
    edit_config,
    save_constructed_eagle3,
    save_constructed_medusa,
    save_cycle_target,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

CLAIM = "checkpoints"
TARGET, EAGLE3, MEDUSA, WRONG = "target", "eagle3", "medusa", "wrong"
POSITIONS = 128
HEADS = 4
# The smallest head that vLLM's attention for processors takes.
_HEAD_SIZE = 32


def save_all(folder: Path) -> None:
    """Write the target, heads of both kinds that are always right, and a head of another model."""
    _save_target(folder / TARGET)
    save_constructed_eagle3(folder / EAGLE3, head_size=_HEAD_SIZE)
    save_constructed_eagle3(folder / WRONG, head_size=_HEAD_SIZE, cycle=tuple(range(32)))
    for head in (EAGLE3, WRONG):
        edit_config(folder / head, max_position_embeddings=POSITIONS)
    save_constructed_medusa(folder / MEDUSA, cycle_target(), heads=HEADS)
    # Without it vLLM takes 4096.
    edit_config(folder / MEDUSA, hidden_size=len(CYCLE))


def _save_target(folder: Path) -> None:
    save_cycle_target(folder, head_size=_HEAD_SIZE)
    # One word for each token. None is special to transformers, or vLLM would leave it out of the text.
    words = {str(token): token for token in range(len(CYCLE))}
    backend = Tokenizer(models.WordLevel(words, unk_token="0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folder)


def walk(first: int, tokens: int) -> list[str]:
    """Give the words that follow a token."""
    at = CYCLE.index(first)
    return [str(CYCLE[(at + step) % len(CYCLE)]) for step in range(1, tokens + 1)]


def provide(kube: Kube, namespace: str, folder: Path, image: str) -> None:
    """Fill a claim of the namespace. ``image`` has a shell.

    The files go with the claim: what lies below /tmp the volume controller may delete.
    """
    names = (TARGET, EAGLE3, MEDUSA, WRONG)
    volume = f"{namespace}-{CLAIM}"
    size = {"storage": "16Mi"}
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "",
                "hostPath": {"path": f"/tmp/{volume}", "type": "DirectoryOrCreate"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": namespace},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": volume,
                "resources": {"requests": size},
            },
        },
        *(_config_map(namespace, name, folder / name) for name in names),
        _filler(namespace, names, image),
    )
    wait_for(
        "the checkpoints lie in the claim",
        lambda: (kube.get("pod", namespace, CLAIM) or {}).get("status", {}).get("phase") == "Succeeded",
        seconds=60,
    )


def _config_map(namespace: str, name: str, folder: Path) -> dict[str, Any]:
    files = {file.name: base64.b64encode(file.read_bytes()).decode() for file in folder.iterdir()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "binaryData": files,
    }


def _filler(namespace: str, names: tuple[str, ...], image: str) -> dict[str, Any]:
    to = {"name": "to", "persistentVolumeClaim": {"claimName": CLAIM}}
    mounts = [{"name": name, "mountPath": f"/from/{name}"} for name in names]
    copy = "for one in /from/*; do mkdir /to/${one##*/} && cp -L $one/* /to/${one##*/}/; done"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": CLAIM, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {"runAsUser": 0},
            "containers": [
                {
                    "name": "copy",
                    "image": image,
                    "command": ["sh", "-ec", copy],
                    "volumeMounts": [*mounts, {"name": "to", "mountPath": "/to"}],
                }
            ],
            "volumes": [*({"name": name, "configMap": {"name": name}} for name in names), to],
        },
    }
