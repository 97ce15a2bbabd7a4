"""What ends the check before there is anything to compare."""

__all__ = ["Unreadable"]


class Unreadable(Exception):
    """A folder is missing, broken, or of a kind that cannot be checked. The text says what to do."""
