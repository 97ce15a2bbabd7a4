"""Prometheus cut off under load: nothing may change, the status must say why, nothing may restart."""

import asyncio
import time
from typing import Any

from dev.demo.installation import PROMETHEUS, SYSTEM
from dev.demo.kubernetes import call
from dev.demo.recorder import Recorder

QUIET_SECONDS = 60.0  # the longest wait for a probe to end
BACK_SECONDS = 90.0


async def cut_prometheus(recorder: Recorder, seconds: float) -> dict[str, Any]:
    """Scale Prometheus away, wait, bring it back. Gives when that was; what happened is in the samples."""
    # A probe that ends is a new version too, and would be mistaken for a reaction.
    await recorder.until(lambda sample: not sample.get("pool", {}).get("probe"), QUIET_SECONDS)
    began = time.time()
    try:
        await _scale(0)
        await call(
            "kubectl", "-n", SYSTEM, "wait", "pod", "-l", "app.kubernetes.io/component=prometheus",
            "--for=delete", "--timeout=60s",
        )  # fmt: skip
        gone = time.time()
        await asyncio.sleep(seconds)
    finally:
        ended = time.time()
        await _scale(1)
    await call(
        "kubectl",
        "-n",
        SYSTEM,
        "rollout",
        "status",
        f"deployment/{PROMETHEUS}",
        f"--timeout={BACK_SECONDS:.0f}s",
    )
    return {"began": began, "gone": gone, "ended": ended, "back": time.time()}


async def _scale(replicas: int) -> None:
    await call("kubectl", "-n", SYSTEM, "scale", f"deployment/{PROMETHEUS}", f"--replicas={replicas}")
