"""The part of status that reconcile owns, derived from live objects and the plan, never from memory."""

from datetime import datetime
from typing import Any

from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.observed import Observed
from specfleet.planning.plan import Plan


def status(
    resource: SpeculativeDeployment, observed: Observed, planned: Plan, now: datetime
) -> dict[str, Any]:
    """Write ``status`` for `ClusterClient.apply_status` under manager ``specfleet``.

    Conditions that did not change keep their ``lastTransitionTime``. ``observed`` may be from before the apply:
    a Deployment counts only once it carries the plan's hash.
    """
    raise NotImplementedError
