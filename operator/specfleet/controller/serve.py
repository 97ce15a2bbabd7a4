"""From a configuration to a running operator: logs, identity, login. `specfleet operator` calls it."""

import asyncio
import logging
import os
import socket
import uuid
from pathlib import Path

import kopf
from kubernetes.aio.client import Configuration as Connection

from specfleet.api.configuration import Configuration
from specfleet.cluster.connection import NoCluster, load_connection
from specfleet.controller.process import FAILED, OperatorProcess

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

logger = logging.getLogger(__name__)


def serve(configuration: Configuration, *, kubeconfig: Path | None, namespace: str | None) -> int:
    """Run the operator until SIGTERM. Gives the exit code. ``namespace`` None: the pod's own."""
    set_up_logs(configuration.log_level)
    try:
        return asyncio.run(_run(configuration, kubeconfig, namespace or _own_namespace()))
    except NoCluster as error:
        logger.error("%s", error)
        return FAILED


def set_up_logs(level: str) -> None:
    """Write one JSON object a line."""
    kopf.configure(log_format=kopf.LogFormat.JSON, log_refkey="object")
    logging.getLogger("specfleet").setLevel(level.upper())
    # Below warning, kopf logs every event; on debug it prints whole bodies, secrets in env values included.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


async def _run(configuration: Configuration, kubeconfig: Path | None, namespace: str) -> int:
    async def connect() -> Connection:
        return await load_connection(kubeconfig)

    # Unique per process: a container that restarts under the same pod name must not pass for its predecessor.
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    return await OperatorProcess(configuration, connect, namespace=namespace, identity=identity).run()


def _own_namespace() -> str:
    if (given := os.environ.get("POD_NAMESPACE")) is not None:
        return given
    return NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else "default"
