"""Write the exact versions that this environment has: constraints.txt, and what each image installs.

    python dev/constraints.py

Run it in an environment with `.[dev,engine]` installed and the versions wanted. `constraints.txt` holds
everything that pyproject.toml asks for, directly or through another package. The lists below
dev/images/requirements/ are the parts of it for one image layer each, so that a layer changes only when a
version in it changes.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT = "specfleet"
HEADER = "# Written by `make constraints`; do not edit.\n"


def closure(wanted: Iterable[Requirement]) -> dict[str, str]:
    """Answer name and installed version of these requirements and of all that they need here."""
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    queue = list(wanted)
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        package = metadata.distribution(name)
        if name != PROJECT:
            found[name] = package.version
        for text in package.requires or ():
            needed = Requirement(text)
            extras = requirement.extras or {""}
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras | {""}
            ):
                queue.append(needed)
    return found


def render(versions: Mapping[str, str]) -> str:
    """Write versions as a pip requirements file, sorted by name."""
    return HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def main() -> None:
    """Write every file, and say which."""
    with (REPOSITORY / "pyproject.toml").open("rb") as stream:
        project = tomllib.load(stream)["project"]
    extras = project["optional-dependencies"]
    parts = {
        "operator": project["dependencies"],
        "serving": extras["serving"],
        "preflight": extras["preflight"],
        # Without the project's own "serving", which is a layer of its own on top.
        "torch": [text for text in extras["engine"] if not re.match(rf"{PROJECT}\b", text)],
    }
    everything = [*project["dependencies"], *(text for texts in extras.values() for text in texts)]
    files = {REPOSITORY / "constraints.txt": everything}
    files |= {
        REPOSITORY / "dev" / "images" / "requirements" / f"{name}.txt": texts for name, texts in parts.items()
    }
    for path, texts in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(closure(map(Requirement, texts))), encoding="utf-8")
        print(f"wrote {path.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
