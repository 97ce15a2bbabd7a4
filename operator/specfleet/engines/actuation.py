"""What a resource may not ask of an engine whose depth cannot change. Source: design/tuning.md, section 9."""

from collections.abc import Iterator

from specfleet.api.objectives import effective_tuning
from specfleet.api.resource import Spec
from specfleet.engines.engine import Actuation, Refusal

NOT_LIVE = "DepthIsFixed"


def actuation_refusals(spec: Spec, actuation: Actuation) -> Iterator[Refusal]:
    """Refuse what would be accepted and then ignored: tuning, a pin, and a depth of nothing."""
    if actuation.actuator != "fixed" or spec.speculation.method == "none":
        return
    if spec.speculation.depth.initial == 0:
        yield Refusal(
            NOT_LIVE,
            f"speculation.depth.initial: {actuation.why}, which is the initial one: write at least 1, or "
            "method none",
        )
    for pool in spec.pools:
        tuning = effective_tuning(spec, pool)
        if tuning.mode == "Enforce":
            yield Refusal(
                NOT_LIVE,
                f"pool {pool.name}: tuning.mode Enforce has no effect: {actuation.why}. Write mode "
                "Recommend, and the depth that it recommends into speculation.depth.initial",
                pool=pool.name,
            )
        if tuning.schedule is not None:
            yield Refusal(
                NOT_LIVE,
                f"pool {pool.name}: tuning.schedule has no effect: {actuation.why}. Write the depth into "
                "speculation.depth.initial",
                pool=pool.name,
            )
