"""A resource as the pods of one pool are to serve it: without its proposer while the tuner says so.

The tuner decides hard-off and writes it into status; from there reconcile plans the pods as if the pool had
``method: none``, and all that follows from it, arguments, downloads and fingerprint, follows by itself. What
was decided about one proposer does not hold for another one, nor for another model or engine.
"""

from specfleet.api.resource import SpeculationSpec, SpeculativeDeployment
from specfleet.planning.manifest import digest

IN_FORCE = "InForce"
_KEY_LENGTH = 10


def proposer_key(resource: SpeculativeDeployment) -> str:
    """Name what a judgement about a proposer is about. Fields at their defaults do not count: an upgrade may
    bring new ones.
    """
    spec = resource.spec
    parts = {"model": spec.model, "engine": spec.engine, "speculation": spec.speculation}
    judged = {name: part.model_dump(mode="json", exclude_defaults=True) for name, part in parts.items()}
    return digest(judged)[:_KEY_LENGTH]


def as_served(resource: SpeculativeDeployment, pool: str) -> SpeculativeDeployment:
    """Give the resource itself, or one without a proposer where hard-off is in force for this pool."""
    return _without_proposer(resource) if is_unloaded(resource, pool) else resource


def otherwise_served(resource: SpeculativeDeployment, pool: str) -> SpeculativeDeployment:
    """Give the form that the pods have before hard-off begins or ends: the opposite of `as_served`."""
    return resource if is_unloaded(resource, pool) else _without_proposer(resource)


def _without_proposer(resource: SpeculativeDeployment) -> SpeculativeDeployment:
    without = SpeculationSpec.model_validate({"method": "none"})
    spec = resource.spec.model_copy(update={"speculation": without})
    return resource.model_copy(update={"spec": spec})


def is_unloaded(resource: SpeculativeDeployment, pool: str) -> bool:
    """Say whether hard-off is in force for a pool, and was decided about this proposer."""
    said = next((one.hard_off for one in resource.status.pools if one.name == pool), None)
    return said is not None and said.phase == IN_FORCE and said.proposer == proposer_key(resource)
