"""Where the files of a model lie: the target's and a proposer's alike. Source: design/contracts.md."""

from specfleet.api.rules import Rule, matching

LONGEST_URI = 1024

_SEGMENT = "(/[.]?[A-Za-z0-9_-][A-Za-z0-9._-]*)"
_URI = f"file://{_SEGMENT}+|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?{_SEGMENT}*"


def served_uri(field: str, *, optional: bool = False) -> Rule:
    """Give the rule that ``field`` names files by a scheme that is served; ``optional``: or nothing."""
    return matching(
        f"^({'|' if optional else ''}{_URI})$",
        f"{field} must be file:///path (a directory in the engine's image) or pvc://claim/path (a claim "
        "of this namespace), without '..' and without '/' at the end; no other scheme is served",
    )
