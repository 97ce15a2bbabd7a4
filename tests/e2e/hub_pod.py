"""The program of the hub's pod: `python hub_pod.py URL STORE FILES CLAIM` serves the files of a folder.

It also makes the folder of the claim, as whoever provides a cluster's volumes would, and takes it away again.
"""

import json
import shutil
import signal
import sys
import threading
from email.message import Message
from pathlib import Path

from tests.integration.download.hub_server import Answer, Hub, serving

PORT = 8000


class CountingHub(Hub):
    """A hub that tells what it was asked for, at `/asked`."""

    def answer(self, method: str, path: str, headers: Message) -> Answer:
        if path == "/asked":
            return 200, {}, json.dumps(self.requests).encode()
        return super().answer(method, path, headers)


def main() -> None:
    """Serve until SIGTERM."""
    url, store, files, claim = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    shutil.rmtree(claim, ignore_errors=True)
    claim.mkdir()
    claim.chmod(0o777)  # no node gives a volume on its own disk the pod's group
    served = {file.name: file.read_bytes() for file in files.iterdir() if file.is_file()}
    hub = CountingHub(served, url=url, store_url=store)
    with serving(hub, ("", PORT)):
        over.wait()
    shutil.rmtree(claim, ignore_errors=True)


if __name__ == "__main__":
    main()
