"""What a pool's owner and the operator's configuration ask of the tuner, in SI units."""

from dataclasses import dataclass

from specfleet.api.configuration import TuningPace
from specfleet.api.objectives import EffectiveObjectives, EffectiveTuning
from specfleet.api.schedule import Table
from specfleet.tuning.hardware import knee_tokens

CANDIDATES = (0, 1, 2, 3, 5, 7)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """One pool. ``max_requests``: the largest batch of one pod.

    ``gpu_product``: value of the node label nvidia.com/gpu.product that its pods ask for; empty: not known.
    """

    objectives: EffectiveObjectives
    tuning: EffectiveTuning
    pace: TuningPace
    initial_depth: int
    max_depth: int
    max_requests: int
    gpu_product: str = ""

    @property
    def candidates(self) -> tuple[int, ...]:
        """Depths that may be tried; the initial one is in use anyway. Source: design/tuning.md, section 7."""
        return tuple(sorted({d for d in CANDIDATES if d <= self.max_depth} | {self.initial_depth}))

    @property
    def knee_tokens(self) -> float | None:
        return knee_tokens(self.gpu_product)

    @property
    def pin(self) -> Table | None:
        return self.tuning.schedule

    @property
    def scrape_seconds(self) -> float:
        return self.pace.scrape_interval_seconds
