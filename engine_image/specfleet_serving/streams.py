"""The bridge between the loop's thread and the event loop: a mailbox for what belongs to one answer.

Requests enter with `Streams.open`, one for each choice of an answer, and leave when their stream is closed,
whoever closes it: the last output, or a client that went away. Closing an unfinished one cancels it in the
loop, which frees what it holds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from specfleet_serving.active import Output
from specfleet_serving.core import Request
from specfleet_serving.errors import EngineFailed


class Streams:
    """All requests in flight. Lives in the event loop; only `deliver` is called from the loop's thread."""

    def __init__(self) -> None:
        self._event_loop = asyncio.get_running_loop()
        self._mailboxes: dict[str, asyncio.Queue[Output]] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def count(self) -> int:
        """How many requests are in flight."""
        return len(self._mailboxes)

    async def wait_until_idle(self) -> None:
        """Return once no request is in flight."""
        await self._idle.wait()

    def deliver(self, outputs: Sequence[Output]) -> None:
        """Sort a step's outputs into the mailboxes. Called from the loop's thread."""
        # The event loop is closed when the process is about to end: nobody listens any more.
        with contextlib.suppress(RuntimeError):
            self._event_loop.call_soon_threadsafe(self._sort, outputs)

    @contextlib.contextmanager
    def open(
        self, requests: Sequence[Request], submit: Callable[[Request], None], cancel: Callable[[str], None]
    ) -> Iterator[AsyncIterator[Output]]:
        """Submit requests and give their outputs, as they come. Leaving the block early cancels them."""
        mailbox: asyncio.Queue[Output] = asyncio.Queue()
        self._mailboxes |= {request.id: mailbox for request in requests}
        self._idle.clear()
        try:
            for request in requests:
                submit(request)
            yield _outputs(mailbox, len(requests))
        finally:
            for request in requests:
                cancel(request.id)
                del self._mailboxes[request.id]
            if not self._mailboxes:
                self._idle.set()

    def _sort(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if mailbox := self._mailboxes.get(output.request_id):
                mailbox.put_nowait(output)


async def _outputs(mailbox: asyncio.Queue[Output], unfinished: int) -> AsyncIterator[Output]:
    while unfinished:
        output = await mailbox.get()
        if output.finish == "error":
            raise EngineFailed("the engine lost this request; send it again")
        if output.finish:
            unfinished -= 1
        yield output
