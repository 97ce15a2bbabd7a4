"""From a cluster to serving pods: helm, kubectl, and the address that users' requests go to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from dev.demo.errors import DemoError
from dev.demo.kubernetes import Background, call, image_values
from dev.demo.plan import Plan

REPOSITORY = Path(__file__).resolve().parents[2]
SYSTEM = "specfleet-system"
NAMESPACE = "specfleet-demo"
RELEASE = "specfleet"
PROMETHEUS = f"{RELEASE}-prometheus"
OPERATOR = f"{RELEASE}-operator"
ENGINE_PORT = 8000
OPERATOR_PORT = 8080

_NAMESPACE = f"""
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels: {{pod-security.kubernetes.io/enforce: restricted}}
"""


async def install(plan: Plan, references: Path) -> None:
    """Install or upgrade the chart, with its own Prometheus, the plan's pace and the images in a file."""
    pace = [part for key, value in plan.tuning.items() for part in ("--set", f"tuning.{key}={value:g}")]
    await call(
        "helm", "upgrade", "--install", RELEASE, str(REPOSITORY / "charts" / "specfleet"),
        "--namespace", SYSTEM, "--create-namespace", "--wait", "--timeout", "5m",
        "--take-ownership", "--set", "prometheus.install=true", *pace,
        *image_values(references),
    )  # fmt: skip


async def apply_example(plan: Plan) -> None:
    """Apply the example to an empty namespace and wait until it serves."""
    await call("kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait", "--timeout=180s")
    await call("kubectl", "apply", "-f", "-", stdin=_NAMESPACE)
    await call("kubectl", "-n", NAMESPACE, "apply", "-f", str(REPOSITORY / plan.example))
    try:
        await call(
            "kubectl", "-n", NAMESPACE, "wait", f"speculativedeployment/{plan.resource}",
            "--for=condition=Ready", f"--timeout={plan.start_seconds:.0f}s",
        )  # fmt: skip
    except DemoError as error:
        pods = await call("kubectl", "-n", NAMESPACE, "get", "pods", "-o", "wide")
        raise DemoError(f"{plan.resource} did not become ready: {error}\n{pods}") from error


@contextlib.asynccontextmanager
async def service_address(plan: Plan) -> AsyncIterator[str]:
    """Give the Service's address: its cluster IP where this machine can reach it, else a port-forward.

    A port-forward reaches one pod only; the figures still hold, for that pod.
    """
    ip = await call(
        "kubectl", "-n", NAMESPACE, "get", "service", plan.resource, "-o", "jsonpath={.spec.clusterIP}"
    )
    if await _reachable(ip, ENGINE_PORT):
        yield f"http://{ip}:{ENGINE_PORT}"
        return
    forward = ("-n", NAMESPACE, "port-forward", f"service/{plan.resource}", f":{ENGINE_PORT}")
    async with Background(*forward) as port:
        yield f"http://127.0.0.1:{port}"


async def _reachable(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(3.0):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
