"""`python -m specfleet_engine`: load a model, say what was loaded, serve it.

What cannot be served ends the process with status 1 and one line, which also goes to the file that
Kubernetes shows as the container's termination message, so that the operator can pass the reason on.
"""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from specfleet_engine.errors import EngineError, ProposerRefused
from specfleet_engine.options import read_options
from specfleet_engine.start import load, use_cores
from specfleet_serving.process import serve

logger = logging.getLogger("specfleet_engine")

TERMINATION_LOG = Path("/dev/termination-log")


def main(arguments: list[str] | None = None, termination_log: Path = TERMINATION_LOG) -> int:
    """Run the engine until it is told to stop; gives the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    options, settings = read_options(arguments)
    use_cores()
    try:
        # In a thread that ends. Each thread that computes gets a pool of OpenMP threads of its own; with a
        # second pool beside the step loop's there are more threads than cores, and libgomp lets them sleep at
        # each barrier instead of spin: a step of SmolLM2 took 64 ms instead of 41 to 48.
        with ThreadPoolExecutor(1, "load") as loading:
            core, tokenizer = loading.submit(load, options).result()
    except EngineError as error:
        # By this word the operator tells a pair that does not fit from a model that cannot be served.
        at_fault = "proposer: " if isinstance(error, ProposerRefused) else ""
        _give_up(f"{at_fault}{error}", termination_log)
        return 1
    return serve(core, tokenizer, settings)


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
