"""What vLLM is told about speculation: ``--speculative-config``, with the method always written out.

vLLM guesses the method from the path of the weights where it is left out. Source: reference/engines.md,
sections 2.1 to 2.3, and the asserts of vllm/v1/spec_decode/{medusa,suffix_decoding}.py in 0.32.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from specfleet.api.resource import NgramSpec, Spec
from specfleet.engines.engine import ModelPaths

_NAMES: Mapping[str, str] = MappingProxyType({"draftModel": "draft_model"})

LIVE_METHODS = ("draftModel", "eagle", "eagle3", "mtp", "ngram")
"""Methods that draft what the schedule says. The others assert their start-up depth at every step."""

ASYNC_METHODS = ("draftModel", "eagle", "eagle3", "mtp")
"""Methods that vLLM schedules asynchronously by default; a plain scheduler would turn that off."""


def speculative_config(spec: Spec, paths: ModelPaths, *, live: bool) -> dict[str, Any] | None:
    """Write the value of the flag; None: no speculation. ``live``: the depth will change while it serves."""
    speculation = spec.speculation
    if speculation.method == "none":
        return None
    config: dict[str, Any] = {"method": _NAMES.get(speculation.method, speculation.method)}
    if paths.proposer is not None:
        config["model"] = paths.proposer
    if speculation.method == "ngram":
        ngram = speculation.ngram or NgramSpec()
        config |= {"prompt_lookup_min": ngram.min_match, "prompt_lookup_max": ngram.max_match}
    if not live:
        return config | {"num_speculative_tokens": speculation.depth.initial}
    return config | {
        "num_speculative_tokens": speculation.depth.max,
        "num_speculative_tokens_per_batch_size": startup_schedule(
            speculation.depth.initial, speculation.depth.max, spec.engine.max_num_seqs
        ),
    }


def startup_schedule(initial: int, deepest: int, batch: int) -> list[list[int]]:
    """Name every depth once, so that vLLM has buffers and graphs for it: rows of first, last, depth.

    The initial depth holds for all but the fullest batches: it is what an engine runs by whose plug-in does
    not take over. vLLM only looks at rows up to ``batch``; more depths than that find no place and are left.
    """
    others = (
        [depth for depth in range(deepest, -1, -1) if depth != initial][-(batch - 1) :] if batch > 1 else []
    )
    last = batch - len(others)
    return [
        [1, last, initial],
        *([last + place, last + place, depth] for place, depth in enumerate(others, start=1)),
    ]
