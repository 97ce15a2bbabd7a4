"""`python -m dev.bench.guidellm`: guidellm, a benchmark client of others, against the engine for a minute.

It is installed once, in an environment of its own in the cache. That one sees the packages of the project's,
so that torch and transformers, which guidellm wants for its tokenizer, are not downloaded again. Its report
and the engine's log lie in `build/bench-guidellm/`. Exits with 1 unless every request got the tokens that it
asked for, by the client's count and by the engine's.
"""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dev.bench.arms import Engine, start_engine
from dev.bench.errors import BenchError, PeerMissing
from dev.models.smollm2 import cache_folder, provide

VERSION = "0.8.1"
FOLDER = Path(__file__).parents[2] / "build" / "bench-guidellm"
REPORT = FOLDER / "report.json"
MAX_DEPTH, DEPTH = 4, 2
STREAMS, REQUESTS, PROMPT_TOKENS, TOKENS = 4, 24, 64, 48
INSTALL_SECONDS, RUN_SECONDS = 900, 300
GENERATED = re.compile(r"^vllm:generation_tokens_total\{.*\} (\S+)$", re.MULTILINE)


def main() -> int:
    """Run it and say what it said."""
    model = cache_folder() / "models" / "smollm2"
    provide(model)
    try:
        client = provide_guidellm(cache_folder())
        with ExitStack() as ending:
            flags = ["--method", "ngram", "--max-depth", str(MAX_DEPTH)]
            engine, _ = start_engine("engine", model, FOLDER, ending, flags)
            engine.set_depth(DEPTH, MAX_DEPTH)
            report = _run(client, engine, model)
            with engine.server.working():
                return _judge(report, _generated(engine))
    except (BenchError, PeerMissing) as error:
        print(f"bench-guidellm: {error}", file=sys.stderr)
        return 1


def provide_guidellm(cache: Path) -> Path:
    """Install guidellm under ``cache``, unless it is there, and give its program. Raises PeerMissing."""
    folder = cache / "peers" / f"guidellm-{VERSION}"
    stamp = folder / "specfleet-complete"
    if stamp.is_file():
        return folder / "bin" / "guidellm"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _call([sys.executable, "-m", "venv", str(folder)], INSTALL_SECONDS)
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "project.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _call([*pip, f"guidellm=={VERSION}"], INSTALL_SECONDS)
    except (subprocess.SubprocessError, OSError, StopIteration) as error:
        shutil.rmtree(folder, ignore_errors=True)
        said = (getattr(error, "stderr", None) or repr(error)).strip()[-300:]
        raise PeerMissing(f"guidellm {VERSION} cannot be installed in {folder}: {said}") from error
    stamp.touch()
    return folder / "bin" / "guidellm"


def _run(client: Path, engine: Engine, model: Path) -> dict[str, Any]:
    """Let the client work, and give its report. Raises BenchError."""
    backend = f"kind=openai_http,target=http://127.0.0.1:{engine.server.port},model={model.name}"
    REPORT.unlink(missing_ok=True)
    command = [str(client), "run", "--disable-console-interactive", "--backend", backend]
    command += ["--profile", f"kind=concurrent,streams={STREAMS}"]
    command += ["--constraint", f"kind=max_requests,count={REQUESTS}"]
    command += ["--tokenizer", f"kind=hf_auto,model={model}"]
    command += ["--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={TOKENS}"]
    command += ["--output", f"kind=json,path={REPORT}"]
    try:
        with engine.server.working():
            _call(command, RUN_SECONDS)
        report: dict[str, Any] = json.loads(REPORT.read_text(encoding="utf-8"))
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        said = (getattr(error, "stderr", None) or repr(error)).strip()[-300:]
        raise BenchError(f"guidellm failed: {said}") from error
    return report


def _generated(engine: Engine) -> int:
    """How many tokens the engine says that users got."""
    with urllib.request.urlopen(f"http://127.0.0.1:{engine.server.port}/metrics", timeout=10) as answer:
        found = GENERATED.search(answer.read().decode())
    if not found:
        raise BenchError("the engine does not say how many tokens it gave")
    return int(float(found[1]))


def _judge(report: dict[str, Any], generated: int) -> int:
    """Print what the client measured; 0 if it and the engine agree that all was answered."""
    try:
        metrics = report["benchmarks"][0]["metrics"]
        totals, tokens = metrics["request_totals"], metrics["output_token_count"]["successful"]["total_sum"]
        speed, first, each = (
            metrics[name]["successful"]
            for name in ("output_tokens_per_second", "time_to_first_token_ms", "time_per_output_token_ms")
        )
    except LookupError as error:
        raise BenchError(f"{REPORT} has no {error}: guidellm {VERSION} is what this reads") from error
    print(
        f"bench-guidellm: {totals['successful']} of {REQUESTS} requests; {tokens:.0f} tokens by the client's "
        f"count, {generated} by the engine's; {speed['mean']:.0f} tok/s; at the median "
        f"{first['median']:.0f} ms to the first token, {each['median']:.0f} ms for each; {REPORT}"
    )
    return 0 if totals["successful"] == REQUESTS and tokens == generated == REQUESTS * TOKENS else 1


def _call(command: list[str], seconds: float) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)


if __name__ == "__main__":
    sys.exit(main())
