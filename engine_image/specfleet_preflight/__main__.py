"""`python -m specfleet_preflight`: look at one pair, and end with status 0 if it fits, else with 1.

The verdict also goes to the file that Kubernetes shows as the container's termination message.
"""

import argparse
import logging
import sys
from pathlib import Path

from specfleet_preflight.engines import METHODS
from specfleet_preflight.pair import check
from specfleet_preflight.start import ENGINES, Start

logger = logging.getLogger("specfleet_preflight")

TERMINATION_LOG = Path("/dev/termination-log")
# Kubernetes keeps 4096 bytes.
_LONGEST_MESSAGE = 4000
_SHARED = {
    "tensor": "each layer",
    "pipeline": "the layers, as stages of --tensor-parallel-size devices",
    "expert": "the experts of a stage, if they are more than share the layer",
    "context": "the KV cache of one sequence",
}
_ELEMENT_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def main(arguments: list[str] | None = None, termination_log: Path = TERMINATION_LOG) -> int:
    """Check what the command line names; gives the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    options = _parser().parse_args(arguments)
    start = Start(
        engine=options.engine,
        version=options.engine_version,
        method=options.method,
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        max_depth=options.max_depth,
        quantization=options.quantization,
        element_bytes=_ELEMENT_BYTES[options.dtype],
        kv_element_bytes=options.kv_element_bytes or _ELEMENT_BYTES[options.dtype],
        tensor_parallel=options.tensor_parallel_size,
        pipeline_parallel=options.pipeline_parallel_size,
        expert_parallel=max(options.expert_parallel_size, options.tensor_parallel_size),
        context_parallel=options.context_parallel_size,
        offloaded_bytes=options.offloaded_mib << 20,
        memory_bytes=None if options.memory_mib is None else options.memory_mib << 20,
        stretched=options.positions_stretched,
    )
    verdict = check(options.model, options.proposer, start)
    logger.log(logging.INFO if verdict.fits else logging.ERROR, "%s", verdict)
    if termination_log.exists():
        # With the program's name in front: the operator quotes no other text.
        line = f"specfleet_preflight: {verdict}".encode()[:_LONGEST_MESSAGE].decode(errors="ignore")
        termination_log.write_text(f"{line}\n", encoding="utf-8")
    return 0 if verdict.fits else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="specfleet_preflight", description="Say whether a proposer fits a model, without loading either."
    )
    parser.add_argument("--model", type=Path, required=True, help="folder of the served model")
    parser.add_argument("--proposer", type=Path, required=True, help="folder of what drafts")
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--engine-version", required=True, help="such as 0.32.0")
    parser.add_argument("--max-model-len", type=int, required=True, help="longest sequence, in tokens")
    parser.add_argument("--max-num-seqs", type=int, required=True, help="most requests at once")
    parser.add_argument("--max-depth", type=int, required=True, help="most drafted tokens of a step")
    parser.add_argument("--dtype", choices=_ELEMENT_BYTES, default="bfloat16", help="of weights and KV cache")
    parser.add_argument("--quantization", help="what the engine is told to quantise with")
    parser.add_argument("--kv-element-bytes", type=float, help="default: that of --dtype")
    for what, shared in _SHARED.items():
        parser.add_argument(
            f"--{what}-parallel-size", type=int, default=1, help=f"devices that share {shared}"
        )
    parser.add_argument("--offloaded-mib", type=int, default=0, help="of each device's weights, on the host")
    parser.add_argument("--memory-mib", type=int, help="of one device; without it the plan is printed only")
    parser.add_argument(
        "--positions-stretched",
        action="store_true",
        help="the engine may go beyond the positions of a config",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
