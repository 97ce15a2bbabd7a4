"""From the flags to a core: the model, its proposer, and the line of the log that says what was loaded."""

import argparse
import logging
import os
import time

import torch

from specfleet_engine.core import EngineCore
from specfleet_engine.cpu import usable_cores
from specfleet_engine.forward import TargetModel
from specfleet_engine.load import choose_device, load_model, load_tokenizer
from specfleet_engine.options import DTYPES
from specfleet_engine.proposers import Proposer
from specfleet_engine.proposers.choose import METHODS, load_proposer
from specfleet_engine.proposers.ngram import NgramProposer
from specfleet_engine.tokenizer import EngineTokenizer

__all__ = ["load", "load_core", "read_model", "use_cores"]

logger = logging.getLogger("specfleet_engine")


def use_cores() -> None:
    """Let torch use the cores that this process has."""
    # Whoever sets OMP_NUM_THREADS knows better; torch has read it already.
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(usable_cores())


def load(options: argparse.Namespace) -> tuple[EngineCore, EngineTokenizer]:
    """Make the core that ``options`` ask for. Raises EngineError."""
    begin = time.monotonic()
    model, tokenizer = read_model(options)
    core = load_core(options, model, tokenizer)
    logger.info("loaded in %.1f s", time.monotonic() - begin)
    return core, tokenizer


def read_model(options: argparse.Namespace) -> tuple[TargetModel, EngineTokenizer]:
    """Read the target. Raises EngineError."""
    device = choose_device(options.device)
    model = load_model(options.model, DTYPES[options.dtype], options.max_model_len, device)
    return model, load_tokenizer(options.model, model)


def load_core(options: argparse.Namespace, model: TargetModel, tokenizer: EngineTokenizer) -> EngineCore:
    """Read the proposer, make the core and log what it is. Raises EngineError."""
    proposer = _proposer(options, model, tokenizer)
    core = EngineCore(
        model,
        proposer,
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        max_depth=options.max_depth,
        kv_cache_mib=options.kv_cache_mib,
    )
    _report(options, model, proposer, core)
    return core


def _proposer(options: argparse.Namespace, model: TargetModel, tokenizer: EngineTokenizer) -> Proposer | None:
    if options.method == "none":
        return None
    if options.method in METHODS:
        return load_proposer(
            options.method, options.proposer, model, tokenizer, allow_pickle=options.allow_pickle
        )
    return NgramProposer(options.ngram_min_match, options.ngram_max_match)


def _report(
    options: argparse.Namespace, model: TargetModel, proposer: Proposer | None, core: EngineCore
) -> None:
    limits = core.limits
    logger.info(
        "loaded model=%s weights_mib=%d dtype=%s kernel=%s device=%s threads=%d kv_blocks=%d "
        "kv_tokens=%d kv_mib=%d step_mib=%d method=%s proposer=%s proposer_mib=%d max_depth=%d "
        "max_model_len=%d max_num_seqs=%d",
        options.model,
        model.weight_bytes >> 20,
        options.dtype,
        model.kernel,
        model.device.type,
        torch.get_num_threads(),
        limits.kv_tokens // limits.kv_block_size,
        limits.kv_tokens,
        limits.kv_tokens * core.bytes_per_token >> 20,
        core.step_bytes >> 20,
        limits.method,
        options.proposer,
        proposer.weight_bytes >> 20 if proposer else 0,
        limits.max_depth,
        limits.max_model_len,
        limits.max_num_seqs,
    )
    if proposer and proposer.reach is not None and proposer.reach < limits.max_model_len:
        logger.warning(
            "%s drafts up to %d tokens of a sequence, and sequences may have %d: its config.json states no "
            "more positions. Raise max_position_embeddings there if it was trained for more",
            options.proposer,
            proposer.reach,
            limits.max_model_len,
        )
