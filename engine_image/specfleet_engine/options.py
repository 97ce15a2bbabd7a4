"""The flags of the engine: its own, beside those that every engine shares."""

import argparse
from pathlib import Path

import torch

from specfleet_engine.proposers.choose import METHODS
from specfleet_serving.arguments import Settings, add_common_arguments, settings_from, whole

__all__ = ["DTYPES", "read_options"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def read_options(arguments: list[str] | None) -> tuple[argparse.Namespace, Settings]:
    """Read the command line, that of the process if None, and what of it the serving side keeps.

    Flags that are wrong or contradict each other end the program with a message.
    """
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
    options = parser.parse_args(arguments)
    settings = settings_from(parser, options)
    if options.method in METHODS and options.proposer is None:
        parser.error(f"--method {options.method} needs --proposer")
    if options.method not in METHODS and options.proposer is not None:
        parser.error(f"--proposer is for {', '.join(METHODS)}, not for --method {options.method}")
    return options, settings
