"""Why a repository could not be fetched."""

__all__ = ["CannotFetch"]


class CannotFetch(Exception):
    """The hub, its answer, or the volume stands in the way. The text says what, where, and what to change."""
