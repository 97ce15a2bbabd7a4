"""vLLM as it is released; a plug-in in its scheduler lets the depth follow the schedule file.

Source: reference/engines.md section 2, read in vLLM 0.32 and 0.33.
"""

import json
from collections.abc import Iterator

from specfleet.api.engine_versions import VLLM
from specfleet.api.owned import PLUGIN_PATH, PLUGIN_VOLUME, SCHEDULE_PATH, SCRATCH_PATH, VLLM_FLAGS
from specfleet.api.resource import Spec
from specfleet.engines import stock
from specfleet.engines.actuation import actuation_refusals
from specfleet.engines.engine import (
    Actuation,
    ModelPaths,
    Plugin,
    Port,
    Probe,
    Probes,
    Refusal,
    Runtime,
    Timing,
)
from specfleet.engines.extra_arguments import broken
from specfleet.engines.flags import HTTP, owned_flag_refusals
from specfleet.engines.placement import Placement
from specfleet.engines.vllm_rules import (
    RULES,
    data_parallel_size,
    flags_of,
    gpus,
    placement,
    variable_refusals,
)
from specfleet.engines.vllm_speculation import ASYNC_METHODS, LIVE_METHODS, speculative_config

PLUGIN_METRICS = Port("specfleet", 9404)
SCHEDULER = "specfleet_vllm.scheduler.SpecfleetScheduler"
ASYNC_SCHEDULER = "specfleet_vllm.scheduler.SpecfleetAsyncScheduler"
PLUGIN = Plugin("specfleet-vllm-plugin", "vllm_plugin", PLUGIN_VOLUME, PLUGIN_PATH)

# vLLM's first bounds are 10 ms, above what a small model or a fast card needs for a token.
_TOKEN_BOUNDS = [0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075]
_TOKEN_BOUNDS += [0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0]


class VllmEngine:
    """Arguments, limits and timing of a stock vLLM."""

    name = VLLM
    owned_flags = VLLM_FLAGS
    # preparation: imports, compiling and capturing graphs. drain: whole seconds of --shutdown-timeout;
    # teardown is short, because past the drain streams may hang until SIGKILL (measured, reference 2.5).
    timing = Timing(preparation=900, pre_stop=15, drain=120, teardown=15)

    def actuation(self, spec: Spec) -> Actuation:
        method, version = spec.speculation.method, spec.engine.dialect
        if data_parallel_size(spec) > 1:
            why = "drops the schedule with --data-parallel-size above 1 and runs one depth"
            return Actuation("fixed", f"vLLM {version} {why}")
        if method in LIVE_METHODS:
            return Actuation("live")
        return Actuation("fixed", f"vLLM {version} runs method {method} at one depth")

    def devices(self, spec: Spec) -> int:
        return gpus(spec)

    def placement(self, spec: Spec) -> Placement:
        return placement(spec)

    def runtime(self, spec: Spec) -> Runtime:
        live = self.actuation(spec).actuator == "live"
        return Runtime(
            command=("python3", "-m", "vllm.entrypoints.openai.api_server"),
            ports=(HTTP, PLUGIN_METRICS) if live else (HTTP,),
            probes=Probes(
                startup=Probe(command=stock.warm_up(), timeout=stock.WARM_UP_SECONDS),
                liveness=Probe("/health", period=10, failures=6),
                readiness=Probe("/health"),
            ),
            environment=(
                *stock.ENVIRONMENT,
                ("VLLM_CACHE_ROOT", f"{SCRATCH_PATH}/.cache/vllm"),
                ("VLLM_NO_USAGE_STATS", "1"),
                ("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", stock.KEEP_ALIVE_SECONDS),
                *(_plugin_environment() if live else ()),
            ),
            shared_memory_mib=stock.shared_memory_mib(gpus(spec)),
            run_as_user=stock.USER_ID,
            plugin=PLUGIN if live else None,
        )

    def refusals(self, spec: Spec) -> tuple[Refusal, ...]:
        flags, actuation = flags_of(spec), self.actuation(spec)
        return (
            *owned_flag_refusals(self.owned_flags, [flag.partition(".")[0] for flag in flags]),
            *broken(RULES, flags, spec),
            *variable_refusals(spec, live=actuation.actuator == "live"),
            *actuation_refusals(spec, actuation),
            *self._too_few_sequences(spec),
        )

    def _too_few_sequences(self, spec: Spec) -> Iterator[Refusal]:
        """vLLM prepares the depths that its start-up schedule names, one at least for each batch size."""
        depths = spec.speculation.depth.max + 1
        if self.actuation(spec).actuator == "live" and spec.engine.max_num_seqs < depths:
            yield Refusal(
                "TooFewSequences",
                f"engine.maxNumSeqs must be at least depth.max + 1 with vllm: raise it to {depths}, or lower "
                f"depth.max to {spec.engine.max_num_seqs - 1}",
            )

    def arguments(
        self, spec: Spec, *, served_name: str, paths: ModelPaths, schedule_file: str
    ) -> tuple[str, ...]:
        if paths.model is None:
            raise ValueError("engine vllm needs model.uri")
        engine, method = spec.engine, spec.speculation.method
        live = self.actuation(spec).actuator == "live"
        cache, config = engine.kv_cache_mib, speculative_config(spec, paths, live=live)
        scheduler = ASYNC_SCHEDULER if method in ASYNC_METHODS else SCHEDULER
        return (
            *("--model", paths.model),
            *("--served-model-name", served_name),
            *("--host", "0.0.0.0"),  # noqa: S104 - inside a pod, where Services and probes must reach it
            *("--port", str(HTTP.number)),
            *("--dtype", engine.dtype),
            *(() if engine.quantization is None else ("--quantization", engine.quantization)),
            *("--max-model-len", str(engine.max_model_len)),
            *("--max-num-seqs", str(engine.max_num_seqs)),
            *("--tensor-parallel-size", str(engine.tensor_parallel_size or 1)),
            *(() if cache is None else ("--kv-cache-memory-bytes", str(cache * 2**20))),
            *("--shutdown-timeout", str(self.timing.drain)),
            *("--custom-histogram-buckets", json.dumps({"inter_token_latency": _TOKEN_BOUNDS})),
            *(() if config is None else ("--speculative-config", json.dumps(config))),
            *(("--scheduler-cls", scheduler) if live else ()),
        )


def _plugin_environment() -> tuple[tuple[str, str], ...]:
    return (
        ("PYTHONPATH", PLUGIN_PATH),
        ("SPECFLEET_SCHEDULE_FILE", f"{SCHEDULE_PATH}/schedule.json"),
        ("SPECFLEET_METRICS_PORT", str(PLUGIN_METRICS.number)),
    )
