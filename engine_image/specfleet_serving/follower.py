"""Follows the schedule file while the engine serves.

A thread reads the file, compares its content with what it saw last, and judges a new one; the step loop takes
the accepted document between two steps. Nothing here raises into the loop, and a bad file changes nothing.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from specfleet_serving.schedule import DepthChooser, Document, Reason, Refused, check_succession, flat, parse

logger = logging.getLogger(__name__)

# Half of what design/contracts.md allows, so that one late wake-up still keeps "at least once a second".
POLL_SECONDS = 0.5
# A ConfigMap holds at most 1 MiB.
LARGEST_FILE_BYTES = 1024 * 1024
# The kubelet swaps a link and then removes the old directory: an open between the two finds nothing.
ATTEMPTS_ACROSS_SWAP = 3


class ScheduleFollower:
    """The schedule in force, and the judge of every file that wants to replace it."""

    def __init__(
        self,
        path: Path | None,
        initial_depth: int,
        max_depth: int,
        refused: Callable[[Reason], None],
        accepted: Callable[[Document], None] | None = None,
    ) -> None:
        """``refused`` and ``accepted`` are called from the thread that reads, once for each new file."""
        if not 0 <= initial_depth <= max_depth:
            raise ValueError(f"the initial depth must be within 0..{max_depth}, got {initial_depth}")
        self._path = path
        self._max_depth = max_depth
        self._refused = refused
        self._told = accepted
        self._accepted = flat(initial_depth, max_depth)
        self._seen: bytes | Reason | None = None
        self._in_force = self._accepted
        self._chooser = DepthChooser(self._in_force.table)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="schedule-follower", daemon=True)
        self.poll()
        self.swap()

    @property
    def in_force(self) -> Document:
        """What the steps use now."""
        return self._in_force

    @property
    def has_file(self) -> bool:
        """Whether what is in force comes from a file, and not from the start."""
        return (self._in_force.fence, self._in_force.version) != (0, 0)

    @property
    def depth(self) -> int:
        """The depth that the last step was given."""
        return self._chooser.depth

    def start(self) -> None:
        """Begin to read the file at least once a second. Without a path there is nothing to read."""
        if self._path is not None:
            self._thread.start()

    def stop(self) -> None:
        """Stop reading. Safe to call more than once, and without a start."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def swap(self) -> None:
        """Put the last accepted document in force. The loop calls this between two steps only."""
        accepted = self._accepted
        if accepted is not self._in_force:
            self._in_force = accepted
            self._chooser = DepthChooser(accepted.table)
            logger.info(
                "schedule in force: version %d, fence %d, %s",
                accepted.version,
                accepted.fence,
                accepted.table,
            )

    def depth_for(self, decoding: int) -> int:
        """Give the depth for the next step. With nothing to decode the row in use stays."""
        return self._chooser.choose(decoding) if decoding else self._chooser.depth

    def poll(self) -> None:
        """Look at the file once. Never raises: a file that cannot be followed is counted and logged once."""
        if self._path is None:
            return
        try:
            content = _read(self._path)
        except Refused as refusal:
            if self._seen is not refusal.reason:
                self._seen = refusal.reason
                self._refuse(refusal)
            return
        if content == self._seen:
            return
        self._seen = content
        try:
            self._judge(content)
        except Refused as refusal:
            self._refuse(refusal)

    def _judge(self, content: bytes) -> None:
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise Refused(Reason.NOT_JSON, "the file is not UTF-8 text") from error
        document = parse(text, self._max_depth)
        # A good file that comes back after a bad one is no push.
        if document != self._accepted:
            check_succession(document, self._accepted)
            self._accepted = document
            if self._told is not None:
                self._told(document)

    def _refuse(self, refusal: Refused) -> None:
        self._refused(refusal.reason)
        logger.warning(
            "schedule file %s refused (%s): %s; version %d stays in force",
            self._path,
            refusal.reason,
            refusal,
            self._accepted.version,
        )

    def _watch(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            self.poll()


def _read(path: Path) -> bytes:
    for _ in range(ATTEMPTS_ACROSS_SWAP):
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST_FILE_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Refused(Reason.UNREADABLE, f"the file cannot be read: {error.strerror}") from error
        if len(content) > LARGEST_FILE_BYTES:
            raise Refused(Reason.UNREADABLE, f"the file is larger than {LARGEST_FILE_BYTES} bytes")
        return content
    raise Refused(Reason.FILE_GONE, "there is no such file")
