"""`python -m specfleet_download`: bring one repository into one folder, and end.

A fault ends the process with status 1 and one line, which also goes to the file that Kubernetes shows as the
container's termination message. HF_TOKEN and HF_ENDPOINT are read from the environment.
"""

import argparse
import logging
import os
import socket
import sys
from pathlib import Path

from specfleet_download.errors import CannotFetch
from specfleet_download.hub import Repository
from specfleet_download.store import fetch

logger = logging.getLogger("specfleet_download")

TERMINATION_LOG = Path("/dev/termination-log")


def main(arguments: list[str] | None = None, termination_log: Path = TERMINATION_LOG) -> int:
    """Fetch what the command line names; gives the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # One line a request would bury ours.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    options = _parser().parse_args(arguments)
    repository = Repository(
        options.repository,
        options.field,
        token=os.environ.get("HF_TOKEN") or None,
        endpoint=os.environ.get("HF_ENDPOINT") or None,
    )
    try:
        fetch(repository, options.revision, options.into, pod=socket.gethostname(), pickled=options.pickled)
    except CannotFetch as error:
        logger.error("%s", error)
        if termination_log.exists():
            # With the program's name in front: the operator quotes no other text.
            termination_log.write_text(f"specfleet_download: {error}\n", encoding="utf-8")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="specfleet_download", description="Fetch a repository of a model hub into a folder."
    )
    parser.add_argument("--repository", required=True, help="org/name")
    parser.add_argument("--revision", default="main", help="commit, tag or branch; default: main")
    parser.add_argument("--into", type=Path, required=True, help="folder that will hold the files")
    parser.add_argument(
        "--field", required=True, help="field of the resource that it comes from, for messages"
    )
    parser.add_argument(
        "--pickled", action="store_true", help="take *.bin or *.pt if there are no safetensors"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
