"""Let torch's build for GPUs start without NVIDIA's libraries: 2.7 GB that nothing calls on a processor.

The package index has no other build. Each of those libraries that torch is linked to gets a stand-in beside
torch's own: the same name, the same functions, and each answers that there is no device.

    python3 without_gpu.py SITE_PACKAGES/torch/lib     (needs readelf, as and ld)
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# The driver's own, libcuda, is loaded on demand only.
_GPU = r"lib(?:cu(?!da\.)|nv|nccl)[^\s\]]*"
_NEEDED = re.compile(rf"\(NEEDED\).*\[({_GPU})\]")
_VERSION = re.compile(rf" File: ({_GPU})  Cnt: 1\n.* Name: (\S+) ")
_UNDEFINED = re.compile(r" UND (?P<name>\w+)(?:@(?P<version>\S+))?(?: \(\d+\))?$", re.MULTILINE)
# Functions of libraries without versions; any library may have them, since all are looked up together.
_UNVERSIONED = re.compile("cu|nccl|nvrtc|nvshmem")
_ANY = "libcudart"

# 100 is cudaErrorNoDevice, and no success in the other libraries either.
_ANSWERS = """\
.section .note.GNU-stack, "", @progbits
.section .rodata
words: .asciz "no device"
.text
code: mov $100, %eax
ret
text: lea words(%rip), %rax
ret
"""


@dataclass
class Library:
    """What a missing library must have. ``version``: of all its functions."""

    version: str
    functions: set[str] = field(default_factory=set)


def missing(listings: Sequence[str]) -> dict[str, Library]:
    """Say what torch's libraries want of others, by what readelf says of each."""
    text = "\n".join(listings)
    found = {name: Library(name) for name in _NEEDED.findall(text)}
    for name, version in _VERSION.findall(text):
        found[name].version = version
    by_version = {library.version: library for library in found.values()}
    anywhere = next(library for name, library in found.items() if name.startswith(_ANY))
    for symbol in _UNDEFINED.finditer(text):
        name, version = symbol["name"], symbol["version"]
        if version in by_version:
            by_version[version].functions.add(name)
        elif version is None and _UNVERSIONED.match(name):
            anywhere.functions.add(name)
    return found


def assembly(names: Iterable[str]) -> Iterator[str]:
    """Write the functions; those that give a text give one."""
    yield _ANSWERS
    for name in sorted(names):
        answer = "text" if name.endswith(("String", "Name")) else "code"
        yield f".globl {name}\n.type {name}, @function\n.set {name}, {answer}\n"


def build(target: Path, library: Library) -> None:
    """Make one stand-in."""
    with tempfile.TemporaryDirectory() as folder:
        source, compiled, versions = (Path(folder) / name for name in ("a.s", "a.o", "versions"))
        source.write_text("".join(assembly(library.functions)), encoding="utf-8")
        versions.write_text(f"{library.version} {{ global: *; }};\n", encoding="utf-8")
        subprocess.run(["as", "-o", compiled, source], check=True)
        how = ["-shared", "-soname", target.name, "--version-script", versions]
        subprocess.run(["ld", *how, "-o", target, compiled], check=True)


def main(folder: Path) -> None:
    """Write a stand-in for every library that is missing beside torch's."""
    read = ["readelf", "--wide", "--dynamic", "--dyn-syms", "--version-info"]
    listings = [
        subprocess.run([*read, library], check=True, capture_output=True, text=True).stdout
        for library in folder.glob("*.so*")
    ]
    for name, library in missing(listings).items():
        build(folder / name, library)
        print(f"{name}: {len(library.functions)} functions")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
