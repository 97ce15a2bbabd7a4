"""Engines whose weights lie in the same memory, so that only what they do can make one slower than another.

`python -m dev.bench.twins GROUPS FLAGS...`: read the model that the first FLAGS name, then fork into one
engine for each FLAGS, a JSON list of arguments of `specfleet_engine`. The process group of each is written to
the file GROUPS. A fork shares the pages of what was read before; two processes that read the same weights one
after the other have them in other physical pages, and differed by up to 13 % for that alone.
"""

import json
import logging
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from specfleet_engine.options import read_options
from specfleet_engine.start import load_core, read_model, use_cores
from specfleet_serving.process import serve

DRAIN_SECONDS = 10


def main() -> None:
    """Read, fork, and wait until all engines have ended or SIGTERM asks to end them."""
    logging.basicConfig(level=logging.INFO)
    use_cores()
    engines = [read_options(json.loads(flags)) for flags in sys.argv[2:]]
    # In a thread that ends, as in the engine: a thread that has computed must not be the one that forks.
    with ThreadPoolExecutor(1) as reading:
        model, tokenizer = reading.submit(read_model, engines[0][0]).result()
    children = []
    for options, settings in engines:
        child = os.fork()
        if not child:
            with ThreadPoolExecutor(1) as loading:
                core = loading.submit(load_core, options, model, tokenizer).result()
            os._exit(serve(core, tokenizer, settings))
        os.setpgid(child, child)
        children.append(child)

    def end(*_: object) -> None:
        signal.alarm(DRAIN_SECONDS)
        for child in children:
            os.kill(child, signal.SIGTERM)
            os.kill(child, signal.SIGCONT)

    def kill(*_: object) -> None:
        for child in children:
            os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, kill)
    Path(sys.argv[1]).write_text(json.dumps(children), encoding="utf-8")
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
