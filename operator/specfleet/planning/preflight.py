"""The init container that says whether a proposer fits a model, before an engine of others loads them.

The built-in engine checks what it loads itself (docs/decisions.md, 45). Files that lie in the engine's own
image cannot be seen from another container: such a pair is not checked beforehand.
"""

from typing import Any

from specfleet.api.owned import SCRATCH_PATH, SCRATCH_VOLUME
from specfleet.api.resource import PoolSpec, Spec
from specfleet.planning import model_source, names
from specfleet.planning.container import CONTAINER_SECURITY
from specfleet.planning.device_memory import device_memory_mib
from specfleet.planning.manifest import written
from specfleet.planning.pool_design import PoolDesign

# Headers and tokenizers are read, never weights.
_RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
# With these the engines go beyond the positions that a config names.
_STRETCHED = ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "VLLM_ALLOW_LONG_MAX_MODEL_LEN")


def preflight_container(design: PoolDesign) -> dict[str, Any]:
    """Render the check of one pool's pair."""
    spec = design.resource.spec
    return {
        "name": names.PREFLIGHT,
        "image": design.images[names.PREFLIGHT],
        "command": ["python", "-m", "specfleet_preflight"],
        "args": _arguments(spec, design.pool),
        "resources": written(_RESOURCES),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": written(CONTAINER_SECURITY),
        "volumeMounts": [
            {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_PATH},
            *(
                {"name": mount.volume, "mountPath": mount.path, "readOnly": True}
                for mount in model_source.source_mounts(spec)
            ),
        ],
    }


def _arguments(spec: Spec, pool: PoolSpec) -> list[str]:
    paths, engine = model_source.model_paths(spec), spec.engine
    memory = device_memory_mib(pool.template)
    return [
        *("--model", str(paths.model)),
        *("--proposer", str(paths.proposer)),
        *("--method", spec.speculation.method),
        *("--engine", engine.type),
        *("--engine-version", engine.dialect),
        *("--max-model-len", str(engine.max_model_len)),
        *("--max-num-seqs", str(engine.max_num_seqs)),
        *("--max-depth", str(spec.speculation.depth.max)),
        *("--dtype", engine.dtype),
        *(() if engine.quantization is None else ("--quantization", engine.quantization)),
        *("--tensor-parallel-size", str(engine.tensor_parallel_size or 1)),
        *(() if memory is None else ("--memory-mib", str(memory))),
        # Whichever type it names, none is smaller than one byte.
        *(("--kv-element-bytes", "1") if _has_flag(spec, "--kv-cache-dtype") else ()),
        *(("--positions-stretched",) if _is_stretched(spec) else ()),
    ]


def _has_flag(spec: Spec, flag: str) -> bool:
    return any(argument.partition("=")[0] == flag for argument in spec.engine.extra_args)


def _is_stretched(spec: Spec) -> bool:
    values = [entry.value for entry in spec.engine.env if entry.name in _STRETCHED]
    return any(value is not None and value.lower() in ("1", "true") for value in values)
