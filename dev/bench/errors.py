"""What ends a run, and what only leaves a peer out."""


class BenchError(Exception):
    """The run cannot go on. The text says why and what to do."""


class PeerMissing(Exception):
    """A peer cannot be had here. The text says why."""
