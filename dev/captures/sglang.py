"""Have the collector of a released SGLang write pages of ``/metrics`` into the fixtures of tests.

    python -m dev.captures.sglang

SGLang itself is not run: it needs a GPU. Its package is fetched without dependencies into a temporary folder,
and its own collector classes count a short history that is played here. So names, labels, kinds and the way
of counting are SGLang's; the numbers are ours. Modules that the collector imports for settings have
stand-ins, since they would load torch.
"""

import importlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

VERSION = "0.5.23"
MSGSPEC = "msgspec==0.19.0"  # a base class of the collector's; no more is used of it
FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "metrics"
SCHEDULER = {"model_name": "m", "engine_type": "unified", "tp_rank": 0, "pp_rank": 0, "moe_ep_rank": 0}
TOKENIZER = {"model_name": "m", "engine_type": "unified"}
STEP_SECONDS = 0.04
TOKENS_OF_STEPS = (3, 1, 2, 4, 1)  # of one request, over and over: 2.2 tokens a step at depth 3
STEPS = 100
REQUESTS = 4


class _Unset(ModuleType):
    """A stand-in: every setting is left at its default."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: _Settings()


class _Settings:
    prefill_delayer_max_delay_passes = 30  # it is compared with bounds of a histogram

    def __getattr__(self, name: str) -> None:
        return None

    def __bool__(self) -> bool:
        return False


def main() -> None:
    """Fetch SGLang, and play each scenario in a process of its own, since a registry is global."""
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "--quiet", "install", "--no-deps", "--target", scratch]
        subprocess.run([*pip, f"sglang=={VERSION}", MSGSPEC], check=True)
        for scenario in ("speculation", "no-speculation", "priority"):
            files = Path(scratch) / "files" / scenario
            files.mkdir(parents=True)
            environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(files)}
            command = [sys.executable, "-m", "dev.captures.sglang", scratch, scenario]
            subprocess.run(command, env=environment, check=True)


def play(package: Path, scenario: str) -> None:
    """Play one history and write its pages."""
    collectors = _collectors(package)
    speculating, priority = scenario == "speculation", scenario == "priority"
    history = _History(collectors, depth=3 if speculating else 0, priority=priority)
    history.start()
    if speculating:
        _write("idle", "after its warm-up request, before the first of a user")
    history.decode(STEPS // 2)
    if speculating:
        _write("running", "4 streaming requests after 50 of their 100 steps at depth 3")
    if priority:
        _write("priority", "4 streaming requests of priority 5, with scheduling by priority")
        return
    history.decode(STEPS // 2)
    history.end()
    _write("ended" if speculating else scenario, "4 streaming requests have ended, one was aborted")


class _History:
    def __init__(self, collectors: ModuleType, *, depth: int, priority: bool) -> None:
        own = {"priority": ""} if priority else {}
        self._collectors = collectors
        self._depth = depth
        self._priority = priority
        self._tokenizer_labels = {**TOKENIZER, **({"priority": "5"} if priority else {})}
        self._scheduler = collectors.SchedulerMetricsCollector(labels={**SCHEDULER, **own}, server_args=None)
        self._tokenizer = collectors.TokenizerMetricsCollector(labels={**TOKENIZER, **own})
        self._steps = 0

    def start(self) -> None:
        """Emit what is constant, and answer the warm-up request that SGLang sends itself."""
        self._scheduler.emit_constants(
            max_total_num_tokens=40_000,
            max_total_num_tokens_swa=None,
            weight_memory_usage_gb=2.0,
            kv_cache_memory_usage_gb=4.0,
            graph_memory_usage_gb={},
            max_running_requests_under_SLO=None,
            page_size=1,
            num_pages=40_000,
            context_len=4096,
            startup_available_gpu_memory_gb=8.0,
        )
        self._scheduler.observe_queue_time(0.001)
        self._tokenizer.observe_time_to_first_token(self._tokenizer_labels, 0.5, stream=False)
        self._finish(generation=8, verifications=3 if self._depth else 0, streaming=False)
        self._log(running=0, throughput=0.0)

    def decode(self, steps: int) -> None:
        """Run some steps of all requests; the first ones begin them."""
        for _ in range(REQUESTS if not self._steps else 0):
            self._scheduler.observe_queue_time(0.02)
            self._tokenizer.observe_time_to_first_token(self._tokenizer_labels, 0.15, stream=True)
        for step in range(self._steps, self._steps + steps):
            tokens = TOKENS_OF_STEPS[step % len(TOKENS_OF_STEPS)] if self._depth else 1
            for _ in range(REQUESTS):
                self._tokenizer.observe_inter_token_latency(self._tokenizer_labels, STEP_SECONDS, tokens)
        self._steps += steps
        self._log(running=REQUESTS, throughput=REQUESTS * self._tokens / (self._steps * STEP_SECONDS))

    def end(self) -> None:
        """End all requests, abort another one, and take the KV cache of a third away once."""
        for _ in range(REQUESTS):
            self._finish(self._tokens + 1, self._steps if self._depth else 0, streaming=True)
        self._tokenizer.observe_one_aborted_request(self._tokenizer_labels)
        self._scheduler.increment_retracted_reqs(1, 40, 20)
        self._log(running=0, throughput=0.0)

    @property
    def _tokens(self) -> int:
        """Tokens of one request after its first."""
        if not self._depth:
            return self._steps
        return sum(TOKENS_OF_STEPS[step % len(TOKENS_OF_STEPS)] for step in range(self._steps))

    def _finish(self, generation: int, verifications: int, *, streaming: bool) -> None:
        self._tokenizer.observe_one_finished_request(
            self._tokenizer_labels,
            prompt_tokens=40,
            generation_tokens=generation,
            cached_tokens=0,
            e2e_latency=5.0,
            has_grammar=False,
            spec_verify_ct=verifications,
            is_streaming=streaming,
            time_per_output_token=0.02,
        )

    def _log(self, *, running: int, throughput: float) -> None:
        by_priority = {5: running} if self._priority else None
        counted = self._collectors.QueueCount(total=running, by_priority=by_priority)
        length = self._tokens / self._steps if self._depth and self._steps else 0.0
        self._scheduler.log_stats(
            self._collectors.SchedulerStats(
                num_running_reqs=counted,
                gen_throughput=throughput,
                token_usage=0.02 * running,
                spec_accept_length=length,
                spec_accept_rate=max(0.0, length - 1.0) / self._depth if self._depth else 0.0,
                spec_num_steps=self._depth,
                spec_num_draft_tokens=self._depth + 1 if self._depth else 0,
            )
        )


def _collectors(package: Path) -> ModuleType:
    """Import the collector's module; packages are entered without running what they do at import."""
    sys.path.insert(0, str(package))
    for name in ("", ".srt", ".srt.observability", ".srt.utils"):
        entered = _Unset(f"sglang{name}")
        entered.__path__ = [str(package / f"sglang{name}".replace(".", "/"))]
        sys.modules[entered.__name__] = entered
    for name in (
        "disaggregation.utils",
        "model_executor.forward_batch_info",
        "runtime_context",
        "server_args",
    ):
        sys.modules[f"sglang.srt.{name}"] = _Unset(name)
    sys.modules["sglang.srt.utils.nvtx_utils"] = _Unset("nvtx_utils")
    return importlib.import_module("sglang.srt.observability.metrics_collector")


def _write(name: str, what: str) -> None:
    """Render as SGLang does: it has several processes, whose files prometheus_client joins."""
    prometheus = importlib.import_module("prometheus_client")
    registry = prometheus.CollectorRegistry()
    importlib.import_module("prometheus_client.multiprocess").MultiProcessCollector(registry)
    page = prometheus.generate_latest(registry).decode()
    page = re.sub(r'pid="\d+"', 'pid="1"', page)
    # The order of files is that of the folder; a page that is captured again should be the same.
    families = sorted(re.split(r"^(?=# HELP )", page, flags=re.MULTILINE))
    kept = [line for line in "".join(families).splitlines() if not line.startswith("# HELP")]
    title = f"# Written by the metrics collector of sglang {VERSION}, which was not run: {what}."
    FIXTURES.mkdir(parents=True, exist_ok=True)
    (FIXTURES / f"sglang-{VERSION}-{name}.txt").write_text("\n".join([title, *kept, ""]), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        play(Path(sys.argv[1]), sys.argv[2])
