"""Where the API server is and how the operator logs in; one source for our client and for kopf.

In a pod the address comes from ``KUBERNETES_SERVICE_HOST``/``PORT``, so that no cluster DNS is needed.
Anywhere else it is a kubeconfig.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kopf
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException

CREDENTIALS_LIFETIME = timedelta(minutes=10)


class NoCluster(Exception):
    """Neither a pod's service account nor a usable kubeconfig was found."""


async def load_connection(kubeconfig: Path | None = None) -> Configuration:
    """Read address and credentials: the kubeconfig if one is given, else the pod's service account.

    Raises NoCluster, with what to do.
    """
    connection = Configuration()
    try:
        if kubeconfig is not None:
            await load_kube_config(  # type: ignore[no-untyped-call]
                str(kubeconfig), client_configuration=connection, persist_config=False
            )
        elif "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(connection)  # type: ignore[no-untyped-call]
        else:
            raise NoCluster("not in a pod: pass --kubeconfig PATH, or set KUBECONFIG")
    except (ConfigException, OSError) as error:
        raise NoCluster(f"cannot log in to the cluster: {error}") from error
    # aiohttp would take proxy variables from the environment otherwise.
    connection.client_session_kwargs = {"trust_env": False}
    return connection


def kopf_credentials(connection: Configuration, now: datetime | None = None) -> kopf.ConnectionInfo:
    """Give kopf the same login. It expires, since kopf never reads a token twice by itself (kopf#926)."""
    token = connection.api_key.get("BearerToken", "")
    return kopf.ConnectionInfo(
        server=connection.host,
        ca_path=connection.ssl_ca_cert,
        insecure=None if connection.verify_ssl else True,
        certificate_path=connection.cert_file,
        private_key_path=connection.key_file,
        token=token.split(" ", 1)[-1] or None,
        expiration=(now or datetime.now(UTC)) + CREDENTIALS_LIFETIME,
    )
