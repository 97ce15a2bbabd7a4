"""Run the layers of `make test` one after the other, and say how long each took.

Stops at the first layer that fails. Times go to ``build/test-times.json``.
"""

import json
import subprocess
import sys
import time
from pathlib import Path


def main(layers: list[str]) -> int:
    """Run these make targets; give the exit status."""
    seconds: dict[str, float] = {}
    for number, layer in enumerate(layers, start=1):
        print(f"== {layer} ({number} of {len(layers)})", flush=True)
        started = time.monotonic()
        done = subprocess.run(["make", "--no-print-directory", layer], check=False)
        seconds[layer] = round(time.monotonic() - started, 1)
        if done.returncode != 0:
            print(f"test: FAILED in {layer} after {seconds[layer]:.0f} s")
            return 1
    figures = [{"name": name, "value": value, "unit": "s"} for name, value in seconds.items()]
    target = Path("build/test-times.json")
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({"figures": figures}, indent=1) + "\n", encoding="utf-8")
    each = ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
    print(f"test: all layers passed ({each})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
