"""The bridge between the loop's thread and the event loop: one mailbox for each request in flight.

A request enters with `Streams.open` and leaves when its stream is closed, whoever closes it: the last output,
or a client that went away. Closing an unfinished one cancels it in the loop, which frees what it holds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from specfleet_serving.core import Request
from specfleet_serving.errors import EngineFailed
from specfleet_serving.loop import Output


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
        self, request: Request, submit: Callable[[Request], None], cancel: Callable[[str], None]
    ) -> Iterator[AsyncIterator[Output]]:
        """Submit a request and give its outputs. Leaving the block early cancels it."""
        mailbox: asyncio.Queue[Output] = asyncio.Queue()
        self._mailboxes[request.id] = mailbox
        self._idle.clear()
        try:
            submit(request)
            yield _outputs(mailbox)
        finally:
            cancel(request.id)
            del self._mailboxes[request.id]
            if not self._mailboxes:
                self._idle.set()

    def _sort(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if mailbox := self._mailboxes.get(output.request_id):
                mailbox.put_nowait(output)


async def _outputs(mailbox: asyncio.Queue[Output]) -> AsyncIterator[Output]:
    while True:
        output = await mailbox.get()
        if output.finish == "error":
            raise EngineFailed("the engine lost this request; send it again")
        yield output
        if output.finish:
            return
