"""SGLang as it is released: its depth follows a table that it reads when it starts.

Source: reference/engines.md section 3, and the released source of SGLang 0.5.23.
"""

from specfleet.api.engine_versions import SGLANG
from specfleet.api.owned import SCRATCH_PATH, SGLANG_FLAGS
from specfleet.api.resource import Spec
from specfleet.api.schedule import Table
from specfleet.engines import stock
from specfleet.engines.actuation import actuation_refusals
from specfleet.engines.engine import Actuation, ModelPaths, Probe, Probes, Refusal, Runtime, Timing
from specfleet.engines.extra_arguments import broken
from specfleet.engines.flags import HTTP, owned_flag_refusals
from specfleet.engines.placement import Placement
from specfleet.engines.sglang_rules import RULES, flags_of, gpus, placement, unadaptive
from specfleet.engines.sglang_speculation import TABLE_KEY, TABLE_METHODS, adaptive_config, speculation

# /health polls once a second and waits up to 20 s for its own token (SGLANG_HEALTH_CHECK_TIMEOUT).
_HEALTH_SECONDS = 25
# Decode steps between two looks at the gauges; 40 by default, which is seconds of a busy engine.
_LOG_INTERVAL = 10


class SglangEngine:
    """Arguments, limits and timing of a stock SGLang."""

    name = SGLANG
    owned_flags = SGLANG_FLAGS
    # SGLang waits without limit until no request is left, looks every 5 s, then ends within 15 s.
    timing = Timing(preparation=900, pre_stop=15, drain=120, teardown=25)
    table_key = TABLE_KEY

    def actuation(self, spec: Spec) -> Actuation:
        method, version = spec.speculation.method, spec.engine.dialect
        if method not in TABLE_METHODS:
            return Actuation("fixed", f"SGLang {version} runs method {method} at one depth")
        if flag := unadaptive(spec):
            return Actuation("fixed", f"SGLang {version} runs one depth with {flag}")
        return Actuation("rollout", f"SGLang {version} reads its table of depths when it starts")

    def devices(self, spec: Spec) -> int:
        return gpus(spec)

    def placement(self, spec: Spec) -> Placement:
        return placement(spec)

    def table_text(self, spec: Spec, table: Table) -> str:
        return adaptive_config(table, spec.speculation.depth.max, spec.engine.max_num_seqs)

    def runtime(self, spec: Spec) -> Runtime:
        return Runtime(
            command=("python3", "-m", "sglang.launch_server"),
            ports=(HTTP,),
            probes=Probes(
                # Generates a token; /ready and /health know less.
                startup=Probe("/health_generate", timeout=_HEALTH_SECONDS),
                liveness=Probe("/health", period=30, timeout=_HEALTH_SECONDS, failures=3),
                readiness=Probe("/ready"),
            ),
            environment=(
                *stock.ENVIRONMENT,
                ("SGLANG_CACHE_DIR", f"{SCRATCH_PATH}/.cache/sglang"),
                ("SGLANG_TIMEOUT_KEEP_ALIVE", stock.KEEP_ALIVE_SECONDS),
            ),
            shared_memory_mib=stock.shared_memory_mib(gpus(spec)),
            run_as_user=stock.USER_ID,
        )

    def refusals(self, spec: Spec) -> tuple[Refusal, ...]:
        flags = flags_of(spec)
        return (
            *owned_flag_refusals(self.owned_flags, list(flags)),
            *broken(RULES, flags, spec),
            *actuation_refusals(spec, self.actuation(spec)),
        )

    def arguments(
        self, spec: Spec, *, served_name: str, paths: ModelPaths, schedule_file: str
    ) -> tuple[str, ...]:
        if paths.model is None:
            raise ValueError("engine sglang needs model.uri")
        engine = spec.engine
        table_file = f"{schedule_file.rpartition('/')[0]}/{TABLE_KEY}"
        adaptive = self.actuation(spec).actuator == "rollout"
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
            *("--decode-log-interval", str(_LOG_INTERVAL)),
            *speculation(spec, paths, table_file if adaptive else None),
        )
