"""``python -m specfleet_simulated``: the simulated engine as a process."""

import argparse
import sys
from collections.abc import Sequence

from specfleet_serving.arguments import add_common_arguments, positive, settings_from, whole
from specfleet_serving.core import Limits
from specfleet_serving.process import serve
from specfleet_simulated.core import BLOCK_TOKENS, UNSUPPORTED, SimulatedCore
from specfleet_simulated.cost import CostModel
from specfleet_simulated.script import Acceptance
from specfleet_simulated.tokenizer import SimulatedTokenizer


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the flags and serve until SIGTERM."""
    parser = _parser()
    flags = parser.parse_args(arguments)
    settings = settings_from(parser, flags)
    tokenizer = SimulatedTokenizer()
    core = SimulatedCore(
        Limits(
            max_model_len=flags.max_model_len,
            max_num_seqs=flags.max_num_seqs,
            max_depth=flags.max_depth,
            method=flags.method,
            kv_tokens=flags.kv_cache_tokens // BLOCK_TOKENS * BLOCK_TOKENS,
            kv_block_size=BLOCK_TOKENS,
            unsupported=UNSUPPORTED,
        ),
        CostModel(flags.step_milliseconds / 1000, flags.knee_tokens),
        Acceptance(
            free=flags.free_acceptance_percent / 100,
            repetitive=flags.repetitive_acceptance_percent / 100,
            min_match=flags.ngram_min_match,
        ),
        tokenizer,
    )
    return serve(core, tokenizer, settings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="specfleet_simulated",
        description="An inference engine without a model: filler text, real waiting, real metrics.",
    )
    add_common_arguments(parser)
    add = parser.add_argument
    add(
        "--repetitive-acceptance-percent",
        type=whole(0, 100),
        default=85,
        help="chance that a drafted token is accepted when the prompt is nothing but repetition",
    )
    add(
        "--free-acceptance-percent",
        type=whole(0, 100),
        default=25,
        help="the same for a prompt that repeats nothing",
    )
    add("--step-milliseconds", type=positive, default=20.0, help="decode step of one request at depth 0")
    add("--knee-tokens", type=whole(1), default=64, help="tokens a step can verify before it gets slower")
    add("--kv-cache-tokens", type=whole(BLOCK_TOKENS), default=65536, help="tokens that the KV cache holds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
