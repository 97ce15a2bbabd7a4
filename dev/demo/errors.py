"""What can end a run before its figures."""


class DemoError(Exception):
    """The run cannot go on. The text says why and what to do."""
