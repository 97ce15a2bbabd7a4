"""Tests of time without waiting: the event loop jumps to its next timer when nothing else is left to do."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import looptime

P = ParamSpec("P")


def in_fake_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on such a loop. `loop.time()` starts at 0."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        loop = looptime.new_event_loop(start=0)
        try:
            loop.run_until_complete(test(*args, **kwargs))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    return run
