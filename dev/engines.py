"""Write docs/engines.md: which engine, version and method there is, and how its depth changes.

    python -m dev.engines [--check]

A test that runs an engine for real says so with ``@pytest.mark.serves("vllm 0.32", "ngram")``. ``--check``
changes nothing and fails if the page is not what it would be.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from dev.pages import asked_to_check, write_or_check

from specfleet.api.engine_versions import DIALECTS, OWN_ENGINES, TESTED_VERSIONS, methods, versions_of
from specfleet.api.resource import Spec
from specfleet.api.speculation_spec import MODEL_METHODS
from specfleet.engines.registry import ENGINES

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "engines.md"
CAPTURES = REPOSITORY / "tests" / "fixtures" / "metrics"
MARKER = "pytest.mark.serves"

HEADER = """# Engines

Written by `python -m dev.engines` from the adapters in `operator/specfleet/engines/`; do not edit.

`engine.type` names the engine, `engine.version` its version where it is not ours: arguments and metric names
follow it, and so does the default image (`{version}` in the chart's `engineImages`). An image of one's own
goes with the version that is in it.

How the depth of running pods changes:

* **live**: the engine reads its schedule file between two steps. A push is in force within seconds, and no
  pod restarts.
* **rollout**: the engine reads its table when it starts. Another table rolls the pods, one after the other:
  without GPUs a new one comes first, with GPUs the old one goes first, since it holds the card. Where no node
  takes a pod more, the old one goes first too, if the new one fits in its place. The tuner pushes for a gain
  of more than 5 % only, never tries a depth out, and waits until every pod has the table. Meanwhile each pod
  is measured by the table that it was started with (annotation `specfleet.dev/table`).
* **fixed**: one depth from start to end, `speculation.depth.initial`. Mode `Recommend` says what it should
  be; `Enforce` and a pinned schedule are refused.

In mode `Recommend`, `status.pools[].recommendation.appliedBy` says which it would be.

A pod may take so long to start (its start-up probe): 15 minutes with vllm and sglang, 5 with builtin, and
the time to read all that its memory can hold, since only the pod sees how large the weights are: at 100 MiB/s
from a claim, else at 125 MiB/s. The memory is that of its GPUs, where `nodeSelector` tells what they are
(`nvidia.com/gpu.memory` or `nvidia.com/gpu.product`), else 80 GiB for each; without GPUs the memory limit.
Eight H200 give 170 minutes. A pod that hangs is told from one that loads only when that time is up.

## vLLM

The image is vLLM's own. An init container copies specfleet's plug-in beside it; it is a scheduler class that
follows the schedule file, with its metrics on port 9404. vLLM starts with a schedule that names every depth
from 0 to `depth.max`, so that buffers and graphs exist; `maxNumSeqs` must be at least `depth.max` + 1 for it.
With `--data-parallel-size` above 1 it drops the schedule, and runs one depth.
The pod is started when 4 tokens came through the proposer, runs as user 65532 on a read-only root with its
caches in `/tmp`, and has 1 GiB of shared memory and 1 GiB more for each GPU. On SIGTERM, 15 s after it has
left its Services, it finishes its streams for 120 s (`--shutdown-timeout`). A key is given as `VLLM_API_KEY`
in `engine.env`, from a Secret: the start-up probe needs it too. On a CPU `kvCacheMib` sets the cache as well.

What the tests run is a real vLLM 0.32, in its build for processors. Greedy text is the same at the depths 5,
2, 0 and 5, pushed to a running pod; under load 0.8 s to 1.9 s passed from the written schedule to the first
step at its depth. Streams outlive the end of their pod, and after a crash of the engine core the container
begins with the schedule that is mounted.

![Depth, load, accepted length and time per output token of one run on vLLM](images/demo-vllm.png)

*`make demo ENGINE=vllm` on two CPU cores, 30 minutes with a fresh Python environment: SmolLM2-135M in the CPU
build of vLLM 0.32, drafts by n-gram. What the tuner had settled on is the best pinned depth in each of the
four phases; a token of repetitive text takes .30 of the time without speculation; three pushes beside probes,
no failed request, no differing text, no restart.*

## SGLang

The image is SGLang's own. A schedule becomes the file of its adaptive mode, one candidate a row. SGLang looks
a batch up after it was padded to the next size that it has a graph for, so the end of a row falls on such a
size. Its drain ends with the grace period only. Beside adapters, and over stages with
`SGLANG_ENABLE_PP_SPEC`, it runs EAGLE heads at one depth. **SGLang itself was not run**: arguments and rules
are read in the released source of 0.5.23, metrics in what its collector writes ([metrics.md](metrics.md)).
Versions before 0.5.20 are refused: they have no `/ready` for the readiness probe.

## What there is

| engine | version | method | depth | tested by |
|---|---|---|---|---|
"""


def main() -> int:
    """Write or check the page; gives the exit status."""
    check = asked_to_check("Write docs/engines.md from the adapters.")
    runs = set(real_runs(REPOSITORY / "tests"))
    if unknown := runs - {(served, method) for served, method, _ in combinations()}:
        print(f"engines: a test serves {sorted(unknown)[0]}, which no adapter has", file=sys.stderr)
        return 1
    page = HEADER + "".join(_row(served, method, spec, runs) for served, method, spec in combinations())
    return write_or_check(PAGE, page, "python -m dev.engines", check=check)


def combinations() -> Iterator[tuple[str, str, Spec]]:
    """Give every engine (with its release line), each of its methods, and a small spec of the two."""
    for engine in ENGINES:
        for line in DIALECTS.get(engine, ("",)):
            version = "" if engine in OWN_ENGINES else _newest(engine, line)
            for method in methods(engine, version):
                yield f"{engine} {line}".rstrip(), method, _spec(engine, version, method)


def _newest(engine: str, line: str) -> str:
    tested = TESTED_VERSIONS[engine]
    return tested if tested.startswith(f"{line}.") else f"{line}.0"


def _spec(engine: str, version: str, method: str) -> Spec:
    proposer = {"proposer": {"uri": "file:///proposer"}} if method in MODEL_METHODS else {}
    return Spec.model_validate(
        {
            "model": {} if engine == "simulated" else {"uri": "file:///model"},
            "engine": {"type": engine, **({"version": version} if version else {})},
            "speculation": {"method": method, **proposer},
            "pools": [{"name": "p"}],
        }
    )


def real_runs(folder: Path) -> Iterator[tuple[str, str]]:
    """Give engine and method of every test that says it serves them."""
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == MARKER:
                engine, *served = (ast.literal_eval(argument) for argument in node.args)
                yield from ((engine, method) for method in served)


def _row(served: str, method: str, spec: Spec, runs: set[tuple[str, str]]) -> str:
    engine, _, line = served.partition(" ")
    actuation = ENGINES[engine].actuation(spec)
    depth = "none" if method == "none" else actuation.actuator
    version = versions_of(line) if line else ""
    return f"| {engine} | {version} | {method} | {depth} | {_evidence(served, method, runs)} |\n"


def _evidence(served: str, method: str, runs: set[tuple[str, str]]) -> str:
    """Say how much of it was seen: the engine itself, text that it wrote, or its source alone."""
    if served in OWN_ENGINES or (served, method) in runs:
        return "the engine itself"
    if any(CAPTURES.glob(f"{served.replace(' ', '-')}.*.txt")):
        page = "its collector's metrics" if served.startswith("sglang") else "its metrics page"
        return f"{page}; arguments by its source"
    return "names in its source"


if __name__ == "__main__":
    sys.exit(main())
