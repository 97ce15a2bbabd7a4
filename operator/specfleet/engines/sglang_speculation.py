"""What SGLang is told about speculation: flags, and a schedule as the file of its adaptive mode.

SGLang counts draft tokens with the current one: one more than the depth. Its adaptive mode chooses among the
candidates of the row that the batch falls into; with one candidate a row it is a plain table.
Source: reference/engines.md, section 3.1; sglang/srt/speculative/adaptive_spec_params.py in 0.5.23.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType

from specfleet.api.resource import Spec
from specfleet.api.schedule import Table
from specfleet.engines.engine import ModelPaths

TABLE_KEY = "sglang-adaptive.json"
TABLE_METHODS = ("eagle", "eagle3")
"""Methods with an adaptive mode; SGLang drops it for the others with one line in its log."""

_ALGORITHMS: Mapping[str, str] = MappingProxyType(
    {"draftModel": "STANDALONE", "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN", "ngram": "NGRAM"}
)


def speculation(spec: Spec, paths: ModelPaths, table_file: str | None) -> tuple[str, ...]:
    """Write the flags. ``table_file``: where the table lies; None: the initial depth is the only one."""
    method, depth = spec.speculation.method, spec.speculation.depth
    if method == "none":
        return ()
    steps = depth.initial if table_file is None else depth.max
    return (
        *("--speculative-algorithm", _ALGORITHMS[method]),
        *(() if paths.proposer is None else ("--speculative-draft-model-path", paths.proposer)),
        *(_chain_of_ngrams() if method == "ngram" else _chain(steps)),
        *("--speculative-num-draft-tokens", str(steps + 1)),
        *(
            ()
            if table_file is None
            else ("--speculative-adaptive", "--speculative-adaptive-config", table_file)
        ),
    )


def _chain(steps: int) -> tuple[str, ...]:
    return ("--speculative-num-steps", str(steps), "--speculative-eagle-topk", "1")


def _chain_of_ngrams() -> tuple[str, ...]:
    """One branch only: SGLang would spread the drafts over a tree, and depth would mean nothing."""
    return ("--speculative-ngram-min-bfs-breadth", "1", "--speculative-ngram-max-bfs-breadth", "1")


def adaptive_config(table: Table, deepest: int, batch: int) -> str:
    """Write a schedule as SGLang reads it: for each row its first batch size, and one candidate.

    The last key is for batches that never run. It names the deepest depth, so that buffers are always sized
    for it, and the start-up depth is always a candidate, which SGLang demands.
    """
    starts = [1, *(row.max_requests + 1 for row in table if row.max_requests is not None)]
    rows = [(start, row.depth) for start, row in zip(starts, table, strict=True) if start <= batch]
    rows.append((2 * batch + 1, deepest))
    return json.dumps({str(start): {"candidate_steps": [depth]} for start, depth in rows})
