"""Names, labels and annotations of everything specfleet creates.

Source: design/contracts.md, "Names and labels".
"""

import hashlib

ACTIVE = "active"  # the only slice so far
ENGINE_CONTAINER = "engine"
PREFLIGHT = "preflight"
DOWNLOADS = ("download-model", "download-proposer")

DEPLOYMENT_LABEL = "specfleet.dev/deployment"
POOL_LABEL = "specfleet.dev/pool"
SLICE_LABEL = "specfleet.dev/slice"
FINGERPRINT_LABEL = "specfleet.dev/fingerprint"
APPLIED_HASH = "specfleet.dev/applied-hash"
NAMED_IMAGE = "specfleet.dev/named-image"  # on a Deployment: the image that the spec named for its engine
SCHEDULE_KEY = "schedule.json"  # in the ConfigMap that a slice's pods mount

LONGEST = 63  # a DNS label, RFC 1123
_DIGEST = 8


def fitting(name: str) -> str:
    """Cut a name to a DNS label; a hash of the whole keeps two long names apart."""
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST - _DIGEST - 1].rstrip('-')}-{digest}"


def slice_deployment(resource: str, pool: str) -> str:
    return fitting(f"{resource}-{pool}-{ACTIVE}")


def pool_service(resource: str, pool: str) -> str:
    return fitting(f"{resource}-{pool}")


def schedule_config_map(resource: str, pool: str) -> str:
    return fitting(f"{resource}-{pool}-{ACTIVE}-schedule")


def tuning_config_map(resource: str, pool: str) -> str:
    """Where the tuner keeps what it must remember; reconcile never writes it."""
    return fitting(f"{resource}-{pool}-tuning")


def selector(resource: str, pool: str | None = None, slice_name: str | None = None) -> dict[str, str]:
    """The labels that select pods; they never change, since a Deployment's selector cannot."""
    labels = {DEPLOYMENT_LABEL: resource}
    if pool is not None:
        labels[POOL_LABEL] = pool
    if slice_name is not None:
        labels[SLICE_LABEL] = slice_name
    return labels


def labels(resource: str, pool: str | None = None, slice_name: str | None = None) -> dict[str, str]:
    """The labels of a child. Never the operator's version: an upgrade must not roll a pod."""
    return {
        "app.kubernetes.io/name": "specfleet",
        "app.kubernetes.io/instance": resource,
        "app.kubernetes.io/component": "engine",
        "app.kubernetes.io/managed-by": "specfleet",
        **selector(resource, pool, slice_name),
    }


def download_container(field: str) -> str:
    """Name the one of `DOWNLOADS` that fetches what ``field`` of the spec names."""
    return f"download-{field.rpartition('.')[2]}"
