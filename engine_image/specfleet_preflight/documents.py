"""JSON files of a folder of weights."""

import json
from pathlib import Path
from typing import Any

from specfleet_preflight.errors import Unreadable

__all__ = ["read_object"]


def read_object(file: Path) -> dict[str, Any]:
    """Read a file that must hold a JSON object. Raises Unreadable."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Unreadable(f"no {file.name} in {file.parent}: the uri must lead to the folder itself") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{file} is no JSON: name a revision that is whole, or fetch it again") from error
    if not isinstance(found, dict):
        raise Unreadable(f"{file} must hold a JSON object: name a revision that is whole")
    return found
