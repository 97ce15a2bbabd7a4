"""Write docs/metrics.md: what the operator reads of each engine, from the engines' dictionaries.

    python -m dev.metric_names [--check]

``--check`` changes nothing and fails if the page is not what it would be.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from dev.pages import asked_to_check, write_or_check

from specfleet.engines.metrics import Metric
from specfleet.engines.metrics_sglang import SGLANG_METRICS
from specfleet.engines.metrics_vllm import PLUGIN_METRICS, SCHEDULE_METRICS, VLLM_METRICS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
NEEDS = {
    "always": "always",
    "speculating": "with a proposer",
    "schedule": "with a schedule",
    "drafts": "with a schedule and a proposer",
    "finished": "once a request has ended",
    "never": "",
}
TABLES = (
    ("vLLM, the built-in and the simulated engine", VLLM_METRICS),
    (
        "Whatever follows a schedule file: the built-in and the simulated engine, vLLM's plug-in",
        SCHEDULE_METRICS,
    ),
    ("vLLM's plug-in alone", PLUGIN_METRICS),
    ("SGLang", SGLANG_METRICS),
)
HEADER = """# What is read of engines

Written by `python -m dev.metric_names` from the dictionaries in `operator/specfleet/engines/`; do not
edit.

One query for each family of engines reads the whole fleet; an answer of more than 20,000 series is split
by namespace. A pod that does not show a metric it must show makes `MetricsAvailable` False, reason
`MetricsMissing`, with the pod, the metric and the engine's version; the pool holds, since absent is not
0. See then that `engine.version` is what the image runs.

* **Two ports of a pod** (vLLM and its plug-in) are joined by pod, at the time of the engine's scrape:
  counters of the plug-in are interpolated between their own scrapes. Where somebody else's monitor
  scrapes a pod too, one of the two is read.
* **Without counts by depth** (a stock vLLM, SGLang) steps are told from what there is. vLLM: decode
  events, and drafts shared out to at most two depths above 0 of the pod's table around the load, if drafts
  have their full length; with n-gram or suffix only where the load has one depth. Accepted tokens count
  as far as they were given out. SGLang: the depth that it names, and its tokens per step, which give
  acceptance under the assumption that each token of a draft is accepted alike. What cannot be told is
  left out, and a pool then learns nothing.
* **Gauges that keep their last value** (SGLang's) are believed while requests run and for two scrapes
  after they were last written.
* **What begins with its first use** cannot be missed by name before. A figure that such a series is a part
  of is left out where it is absent (SGLang's tokens, without those after the first); one that has it alone
  falls back: SGLang's tokens per step of ended requests to its gauge, its preemptions to none.
* **Where the names come from.** vLLM: pages of a real vLLM 0.32 (CPU build), `tests/fixtures/metrics/`,
  captured by `python -m dev.captures.vllm`; names of 0.32 and 0.33 are compared with their sources, as
  `python -m dev.captures.vllm_names` reads them. **SGLang itself was not run**: the collector classes of
  the released package 0.5.23 wrote the pages, from a history that `python -m dev.captures.sglang` plays.
* A client that goes away is in none of vLLM's finished reasons (seen on 0.32): it has a first token and
  no end.
"""


def main() -> int:
    """Write or check the page; gives the exit status."""
    check = asked_to_check("Write docs/metrics.md from the dictionaries of engines.")
    page = "\n".join(_lines())
    return write_or_check(PAGE, page, "python -m dev.metric_names", check=check)


def _lines() -> Iterator[str]:
    yield HEADER
    for title, metrics in TABLES:
        yield from (f"## {title}", "", "| metric | kind | what it is | must be there |", "|---|---|---|---|")
        yield from (_row(metric) for metric in metrics)
        yield ""


def _row(metric: Metric) -> str:
    labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
    former = f"; formerly `{'`, `'.join(metric.formerly)}`" if metric.formerly else ""
    kind = f"sticky {metric.kind}" if metric.sticky else metric.kind
    return f"| `{metric.name}{labels}` | {kind} | {metric.meaning}{former} | {NEEDS[metric.need]} |"


if __name__ == "__main__":
    sys.exit(main())
