"""`python -m specfleet_engine`: load a model, say what was loaded, serve it.

What cannot be served ends the process with status 1 and one line, which also goes to the file that
Kubernetes shows as the container's termination message, so that the operator can pass the reason on.
"""

import argparse
import logging
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from specfleet_engine.core import EngineCore
from specfleet_engine.cpu import usable_cores
from specfleet_engine.errors import EngineError, ProposerRefused
from specfleet_engine.forward import TargetModel
from specfleet_engine.load import choose_device, load_model, load_tokenizer
from specfleet_engine.proposers import Proposer
from specfleet_engine.proposers.choose import METHODS, load_proposer
from specfleet_engine.proposers.ngram import NgramProposer
from specfleet_engine.tokenizer import EngineTokenizer
from specfleet_serving.arguments import add_common_arguments, settings_from, whole
from specfleet_serving.process import serve

logger = logging.getLogger("specfleet_engine")

TERMINATION_LOG = Path("/dev/termination-log")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def main(arguments: list[str] | None = None, termination_log: Path = TERMINATION_LOG) -> int:
    """Run the engine until it is told to stop; gives the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    parser = _parser()
    options = parser.parse_args(arguments)
    settings = settings_from(parser, options)
    _check_proposer(parser, options)
    # Whoever sets OMP_NUM_THREADS knows better; torch has read it already.
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(usable_cores())
    try:
        # In a thread that ends. Each thread that computes gets a pool of OpenMP threads of its own; with a
        # second pool beside the step loop's there are more threads than cores, and libgomp lets them sleep at
        # each barrier instead of spin: a step of SmolLM2 took 64 ms instead of 41 to 48.
        with ThreadPoolExecutor(1, "load") as loading:
            core, tokenizer = loading.submit(_load, options).result()
    except EngineError as error:
        # By this word the operator tells a pair that does not fit from a model that cannot be served.
        at_fault = "proposer: " if isinstance(error, ProposerRefused) else ""
        _give_up(f"{at_fault}{error}", termination_log)
        return 1
    return serve(core, tokenizer, settings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="specfleet_engine", description="Serve a model speculatively.")
    parser.add_argument("--model", type=Path, required=True, help="folder with config.json and safetensors")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="type of weights and KV cache")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if there is one"
    )
    parser.add_argument("--kv-cache-mib", type=whole(1), default=1024, help="memory for the KV cache, in MiB")
    parser.add_argument("--proposer", type=Path, help=f"folder of the proposer, for {', '.join(METHODS)}")
    parser.add_argument(
        "--allow-pickle",
        action="store_true",
        help="read a proposer that has no safetensors from *.bin or *.pt, with weights_only",
    )
    add_common_arguments(parser, methods=("ngram", *METHODS, "none"))
    return parser


def _check_proposer(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program with a message if method and folder contradict each other."""
    if options.method in METHODS and options.proposer is None:
        parser.error(f"--method {options.method} needs --proposer")
    if options.method not in METHODS and options.proposer is not None:
        parser.error(f"--proposer is for {', '.join(METHODS)}, not for --method {options.method}")


def _load(options: argparse.Namespace) -> tuple[EngineCore, EngineTokenizer]:
    begin = time.monotonic()
    device = choose_device(options.device)
    model = load_model(options.model, DTYPES[options.dtype], options.max_model_len, device)
    tokenizer = load_tokenizer(options.model, model)
    proposer = _proposer(options, model, tokenizer)
    core = EngineCore(
        model,
        proposer,
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        max_depth=options.max_depth,
        kv_cache_mib=options.kv_cache_mib,
    )
    _report(options, model, proposer, core, time.monotonic() - begin)
    return core, tokenizer


def _proposer(options: argparse.Namespace, model: TargetModel, tokenizer: EngineTokenizer) -> Proposer | None:
    if options.method == "none":
        return None
    if options.method in METHODS:
        return load_proposer(
            options.method, options.proposer, model, tokenizer, allow_pickle=options.allow_pickle
        )
    return NgramProposer(options.ngram_min_match, options.ngram_max_match)


def _report(
    options: argparse.Namespace,
    model: TargetModel,
    proposer: Proposer | None,
    core: EngineCore,
    seconds: float,
) -> None:
    limits = core.limits
    logger.info(
        "loaded model=%s seconds=%.1f weights_mib=%d dtype=%s kernel=%s device=%s threads=%d kv_blocks=%d "
        "kv_tokens=%d kv_mib=%d method=%s proposer=%s proposer_mib=%d max_depth=%d max_model_len=%d "
        "max_num_seqs=%d",
        options.model,
        seconds,
        model.weight_bytes >> 20,
        options.dtype,
        model.kernel,
        model.device.type,
        torch.get_num_threads(),
        limits.kv_tokens // limits.kv_block_size,
        limits.kv_tokens,
        limits.kv_tokens * core.bytes_per_token >> 20,
        limits.method,
        options.proposer,
        proposer.weight_bytes >> 20 if proposer else 0,
        limits.max_depth,
        limits.max_model_len,
        limits.max_num_seqs,
    )


def _give_up(reason: str, termination_log: Path) -> None:
    logger.error("%s", reason)
    # Only where a container runtime has put the file: elsewhere it must not be created.
    if termination_log.exists():
        try:
            # With the program's name in front, as argparse does: the operator quotes no other text.
            termination_log.write_text(f"specfleet_engine: {reason}\n", encoding="utf-8")
        except OSError as error:
            logger.warning("cannot write %s: %s", termination_log, error)


if __name__ == "__main__":
    sys.exit(main())
