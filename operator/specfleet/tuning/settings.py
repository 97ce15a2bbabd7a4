"""What a pool's owner and the operator's configuration ask of the tuner, in SI units."""

from dataclasses import dataclass

from specfleet.api.configuration import TuningPace
from specfleet.api.objectives import EffectiveObjectives, EffectiveTuning
from specfleet.api.schedule import Table
from specfleet.engines.engine import Actuator
from specfleet.tuning.hardware import knee_tokens

CANDIDATES = (0, 1, 2, 3, 5, 7)
LEAST_GAIN = 0.01
# A restarted pod loses its prefix cache and minutes of service. Source: design/tuning.md, section 9.
LEAST_GAIN_OF_ROLLOUT = 0.05


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """One pool. ``max_requests``: the largest batch of one pod.

    ``gpu_product``: value of the node label nvidia.com/gpu.product that its pods ask for; empty: not known.
    ``actuator``: what a push does to the pods. ``rollout_seconds``: how long it may take to roll all of them.
    ``proposer`` names proposer and target: what is known of one pair says nothing about another.
    ``restart_seconds``: how long a pod is missing while it is restarted; 0: a new one comes first.
    ``held``: reconcile refuses a part of the resource, so pods may stay as they are.
    """

    objectives: EffectiveObjectives
    tuning: EffectiveTuning
    pace: TuningPace
    initial_depth: int
    max_depth: int
    max_requests: int
    gpu_product: str = ""
    actuator: Actuator = "live"
    rollout_seconds: float = 0.0
    proposer: str = ""
    restart_seconds: float = 0.0
    held: bool = False

    @property
    def candidates(self) -> tuple[int, ...]:
        """Depths that may be tried; the initial one is in use anyway. Source: design/tuning.md, section 7."""
        return tuple(sorted({d for d in CANDIDATES if d <= self.max_depth} | {self.initial_depth}))

    @property
    def least_gain(self) -> float:
        """The least expected ln(J_new / J_old) that is worth a push."""
        return LEAST_GAIN if self.actuator == "live" else LEAST_GAIN_OF_ROLLOUT

    @property
    def knee_tokens(self) -> float | None:
        return knee_tokens(self.gpu_product)

    @property
    def pin(self) -> Table | None:
        return self.tuning.schedule

    @property
    def scrape_seconds(self) -> float:
        return self.pace.scrape_interval_seconds
