"""Start-up check: is the CRD there, and is it the one that this version writes for?

kopf only warns when a kind is not served, and would then idle for ever.
"""

import logging
from typing import Protocol

from specfleet.api.crd import HASH_ANNOTATION, NAME, schema_hash
from specfleet.api.kinds import SPECULATIVE_DEPLOYMENT, Kind, Object
from specfleet.cluster.errors import Forbidden, NotFound
from specfleet.controller.resync import MetadataLister

CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
INSTALL = (
    "install the CRD of this version: helm upgrade with crds.install=true, or "
    # As Helm's manager: fields of another one would be a conflict that stops the next helm upgrade.
    "`specfleet crds | kubectl apply --server-side --field-manager=helm --force-conflicts -f -`"
)

logger = logging.getLogger(__name__)


class UnusableCrd(Exception):
    """The CRD is missing, not served, or of another version. The text says what to do."""


class CrdReader(MetadataLister, Protocol):
    """The calls that the check needs; `KubernetesClient` has them."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object: ...


async def check_crd(client: CrdReader, namespace: str | None) -> None:
    """Raise UnusableCrd unless the CRD is served with the schema of this version.

    ``namespace`` is one that the operator may list, None if it may list all: without the right to read CRDs
    (namespaced installation) only that can be tried.
    """
    try:
        found = await client.get(CUSTOM_RESOURCE_DEFINITION, "", NAME)
    except NotFound as error:
        raise UnusableCrd(f"CRD {NAME} is missing; {INSTALL}") from error
    except Forbidden:
        logger.warning("the operator may not read CRD %s: only whether it is served is checked", NAME)
        await _check_served(client, namespace)
        return
    _check_schema(found)


def _check_schema(found: Object) -> None:
    conditions = {entry["type"]: entry["status"] for entry in found.get("status", {}).get("conditions", ())}
    versions = [entry["name"] for entry in found["spec"]["versions"] if entry.get("served")]
    if SPECULATIVE_DEPLOYMENT.version not in versions or conditions.get("Established") != "True":
        raise UnusableCrd(f"CRD {NAME} does not serve {SPECULATIVE_DEPLOYMENT.version}; {INSTALL}")
    annotations = found["metadata"].get("annotations") or {}
    if (live := annotations.get(HASH_ANNOTATION)) != schema_hash():
        raise UnusableCrd(
            f"CRD {NAME} has schema {live or 'without a hash'}, "
            f"this operator needs {schema_hash()}; {INSTALL}"
        )


async def _check_served(client: CrdReader, namespace: str | None) -> None:
    try:
        await client.list_metadata(SPECULATIVE_DEPLOYMENT, namespace, {})
    except NotFound as error:
        raise UnusableCrd(f"{SPECULATIVE_DEPLOYMENT.plural} are not served; {INSTALL}") from error
