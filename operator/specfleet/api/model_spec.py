"""The model that is served, and where its files come from."""

from typing import Annotated, ClassVar

from pydantic import Field

from specfleet.api.fields import ObjectName, Written
from specfleet.api.model_uri import HUB, LONGEST_URI, served_uri
from specfleet.api.rules import Rule, Rules, matching

ModelUri = Annotated[str, Field(max_length=LONGEST_URI), Rules(served_uri("model.uri", optional=True))]
Revision = Annotated[
    str,
    Field(max_length=100),
    Rules(
        matching(
            "^([A-Za-z0-9][A-Za-z0-9._-]*)?$",
            "revision must be a commit (best all 40 digits), a tag or a branch without '/'",
        )
    ),
]


def hub_only_rules(prefix: str) -> tuple[Rule, ...]:
    """Give the rules of an object with ``uri``, ``revision`` and ``credentialsSecret``."""
    hub = f"has(self.uri) && self.uri.startsWith('{HUB}')"
    return (
        Rule(
            f"{prefix}.revision is only for a uri with hf://: drop it",
            f"!has(self.revision) || self.revision == '' || ({hub})",
            lambda own: own.revision == "" or own.uri.startswith(HUB),
            field="revision",
        ),
        Rule(
            f"{prefix}.credentialsSecret is only for a uri with hf://: drop it",
            f"!has(self.credentialsSecret) || ({hub})",
            lambda own: own.credentials_secret is None or own.uri.startswith(HUB),
            field="credentialsSecret",
        ),
    )


class ModelSpec(Written):
    """The model that is served."""

    uri: ModelUri = ""
    """Where its files are: hf://org/name, a repository of the model hub, fetched before the engine starts;
    pvc://claim/path, mounted read-only; image://reference:tag/path, an image volume; or file:///path in the
    engine's image. Required, but refused with engine.type simulated. Changing it rolls the pods and starts a
    new baseline."""
    revision: Revision = ""
    """Commit, tag or branch of a repository with hf://; with tuning.mode Enforce or a cacheClaim a commit
    (7 to 40 digits). Default: main. Changing it rolls the pods and starts a new baseline."""
    credentials_secret: ObjectName | None = None
    """Secret of this namespace whose key token opens a private or gated repository with hf://. Only the pod
    reads it, never the operator. Default: none. Changing it rolls the pods."""
    cache_claim: ObjectName | None = None
    """Claim of this namespace that keeps what is fetched with hf://, the model's and the proposer's; pods
    share it, so it must be writable from all their nodes. Default: none; each pod then fetches into its own
    emptyDir. Changing it rolls the pods."""
    served_name: Annotated[
        str,
        Field(max_length=128),
        Rules(matching("^[A-Za-z0-9._/:-]*$", "servedName must be letters, digits and . _ / : - only")),
    ] = ""
    """Name of the model in requests. Default: metadata.name. Changing it rolls the pods and starts
    a new baseline."""

    rules: ClassVar[tuple[Rule, ...]] = hub_only_rules("model")
