"""SGLang as it is released. Source: reference/engines.md section 3, read in SGLang 0.5.23."""

from collections.abc import Mapping
from types import MappingProxyType

from specfleet.api.engine_versions import SGLANG
from specfleet.api.owned import SCRATCH_PATH, SGLANG_FLAGS
from specfleet.api.resource import Spec
from specfleet.engines import stock
from specfleet.engines.engine import Actuation, ModelPaths, Probe, Probes, Refusal, Runtime, Timing
from specfleet.engines.flags import HTTP, owned_flag_refusals, startup

_ALGORITHMS: Mapping[str, str] = MappingProxyType(
    {"draftModel": "STANDALONE", "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN", "ngram": "NGRAM"}
)
# /health polls once a second and waits up to 20 s for its own token (SGLANG_HEALTH_CHECK_TIMEOUT).
_HEALTH_SECONDS = 25


class SglangEngine:
    """Arguments, limits and timing of a stock SGLang."""

    name = SGLANG
    owned_flags = SGLANG_FLAGS
    # SGLang waits without limit until no request is left, looks every 5 s, then ends within 15 s.
    timing = Timing(startup=1800, pre_stop=15, drain=120, teardown=25)

    def actuation(self, method: str, version: str) -> Actuation:
        return Actuation("fixed", f"SGLang {version} runs {method} at one depth")

    def runtime(self, spec: Spec) -> Runtime:
        return Runtime(
            command=("python3", "-m", "sglang.launch_server"),
            ports=(HTTP,),
            probes=Probes(
                startup=startup(self.timing, path="/health_generate", seconds=_HEALTH_SECONDS),
                liveness=Probe("/health", period=30, timeout=_HEALTH_SECONDS, failures=3),
                readiness=Probe("/ready"),
            ),
            environment=(*stock.ENVIRONMENT, ("SGLANG_CACHE_DIR", f"{SCRATCH_PATH}/.cache/sglang")),
            shared_memory_mib=stock.shared_memory_mib(spec.engine.tensor_parallel_size or 1),
            run_as_user=stock.USER_ID,
        )

    def refusals(self, spec: Spec) -> tuple[Refusal, ...]:
        return owned_flag_refusals(self.owned_flags, spec.engine.extra_args)

    def arguments(
        self, spec: Spec, *, served_name: str, paths: ModelPaths, schedule_file: str
    ) -> tuple[str, ...]:
        if paths.model is None:
            raise ValueError("engine sglang needs model.uri")
        engine = spec.engine
        return (
            *("--model-path", paths.model),
            *("--served-model-name", served_name),
            *("--host", "0.0.0.0"),  # noqa: S104 - inside a pod, where Services and probes must reach it
            *("--port", str(HTTP.number)),
            *("--dtype", engine.dtype),
            *(() if engine.quantization is None else ("--quantization", engine.quantization)),
            *("--context-length", str(engine.max_model_len)),
            *("--max-running-requests", str(engine.max_num_seqs)),
            *("--tp-size", str(engine.tensor_parallel_size or 1)),
            "--enable-metrics",
            *_speculation(spec, paths),
        )


def _speculation(spec: Spec, paths: ModelPaths) -> tuple[str, ...]:
    method, depth = spec.speculation.method, spec.speculation.depth.initial
    if method == "none":
        return ()
    return (
        *("--speculative-algorithm", _ALGORITHMS[method]),
        *(() if paths.proposer is None else ("--speculative-draft-model-path", paths.proposer)),
        *("--speculative-num-steps", str(depth)),
        *("--speculative-eagle-topk", "1"),
        # Counts the current token too: one more than the depth.
        *("--speculative-num-draft-tokens", str(depth + 1)),
    )
