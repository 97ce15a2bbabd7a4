"""The init container that says whether a proposer fits a model, before an engine of others loads them.

The built-in engine checks what it loads itself (docs/decisions.md, 45). Files that lie in the engine's own
image cannot be seen from another container: such a pair is not checked beforehand.
"""

from collections.abc import Iterator
from typing import Any

from specfleet.api.owned import SCRATCH_PATH, SCRATCH_VOLUME
from specfleet.engines.extra_arguments import switched_on
from specfleet.engines.placement import Places
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
        "args": _arguments(design),
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


def _arguments(design: PoolDesign) -> list[str]:
    spec = design.resource.spec
    paths, engine, depth = model_source.model_paths(spec), spec.engine, spec.speculation.depth
    fixed = design.engine.actuation(spec).actuator == "fixed"
    return [
        *("--model", str(paths.model)),
        *("--proposer", str(paths.proposer)),
        *("--method", spec.speculation.method),
        *("--engine", engine.type),
        *("--engine-version", engine.dialect),
        *("--max-model-len", str(engine.max_model_len)),
        *("--max-num-seqs", str(engine.max_num_seqs)),
        *("--max-depth", str(depth.initial if fixed else depth.max)),
        *("--dtype", engine.dtype),
        *(() if engine.quantization is None else ("--quantization", engine.quantization)),
        *_memory(design),
        *(("--positions-stretched",) if any(switched_on(spec, name) for name in _STRETCHED) else ()),
    ]


def _memory(design: PoolDesign) -> Iterator[str]:
    """Write what the memory plan is made of. What is as usual needs no saying."""
    if not isinstance(design.engine, Places):
        raise TypeError(f"engine {design.engine.name} cannot say how devices share a model")
    placed, memory = design.engine.placement(design.resource.spec), device_memory_mib(design.pool.template)
    yield from ("--tensor-parallel-size", str(placed.tensor))
    # Where an unknown part of the weights lies elsewhere, nothing can be said about the rest.
    if memory is not None and placed.offloaded_mib is not None:
        yield from ("--memory-mib", str(memory))
        if placed.offloaded_mib > 0:
            yield from ("--offloaded-mib", str(placed.offloaded_mib))
    if placed.kv_element_bytes is not None:
        yield from ("--kv-element-bytes", f"{placed.kv_element_bytes:g}")
    shares = (
        ("--pipeline-parallel-size", placed.stages, 1),
        ("--expert-parallel-size", placed.experts, placed.tensor),
        ("--context-parallel-size", placed.contexts, 1),
    )
    for flag, devices, otherwise in shares:
        if devices > otherwise:
            yield from (flag, str(devices))
