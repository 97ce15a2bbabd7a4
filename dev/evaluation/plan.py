"""What is run: cells of a scenario, a policy and a seed, those that answer most first."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dev.evaluation.scenarios import (
    ADVERSARIAL,
    ADVERSARIAL_DAY,
    CANARIES,
    COLLAPSE,
    DAYS,
    MISSING_DATA,
    SCENARIOS,
    STEP_OVERLOAD,
)

from specfleet.simulator.policies import POLICIES
from specfleet.simulator.scenario import Scenario

REPOSITORY = Path(__file__).parents[2]
# A change of these makes cells on disk stale.
_TUNER = "operator/specfleet/tuning"
_SOURCES = (
    "operator/specfleet/api/**/*.py",
    "operator/specfleet/telemetry/**/*.py",
    f"{_TUNER}/**/*.py",
    "operator/specfleet/simulator/**/*.py",
    "operator/specfleet/engines/metrics.py",
    "operator/specfleet/engines/metrics_vllm.py",
    "dev/evaluation/**/*.py",
)
# What policies without the tuner use of it: a change of the rest leaves their cells as they are.
_SHARED = (
    "attribution.py",
    "bins.py",
    "decision.py",
    "evidence.py",
    "hardware.py",
    "interval.py",
    "limits.py",
    "settings.py",
)
_SHARED += ("verdict",)
_SHOWN_ONLY = ("__main__.py", "figures.py", "report.py", "pictures.py", "scale.py", "fleet.py")

OURS, ORACLE, OFF, CANARY_POLICY = "ours", "oracle", "hard-off", "static-2"
# Scenarios with one question need only who answers it.
_ONLY = {
    ADVERSARIAL.name: (OFF, OURS),
    ADVERSARIAL_DAY.name: (OFF, OURS),
    **{one.name: (OFF, OURS) for one in DAYS},
    STEP_OVERLOAD.name: (OURS,),
    COLLAPSE.name: (OURS,),
    MISSING_DATA.name: (OURS,),
    **{one.name: (CANARY_POLICY,) for one in CANARIES},
}
_DAYS = {one.name for one in (*DAYS, ADVERSARIAL_DAY, *CANARIES)}
_DAY_SEEDS = 3  # of scenarios that last a day


@dataclass(frozen=True, slots=True)
class Cell:
    """One run. ``hours`` None: as long as the scenario says."""

    scenario: str
    policy: str
    seed: int
    hours: float | None = None

    @property
    def name(self) -> str:
        length = "" if self.hours is None else f"--{self.hours:g}h"
        return f"{self.scenario}--{self.policy}--{self.seed}{length}"

    def made(self) -> Scenario:
        """Give the scenario, cut if ``hours`` says so."""
        scenario = SCENARIOS[self.scenario]
        return scenario if self.hours is None else replace(scenario, seconds=int(3600 * self.hours))


def plan(
    scenarios: Sequence[str], policies: Sequence[str], seeds: Sequence[int], hours: float | None
) -> list[Cell]:
    """List the cells, seed by seed, so that a run that is stopped has whole seeds.

    Raises ValueError for a name that is not known.
    """
    for names, known in ((scenarios, SCENARIOS), (policies, POLICIES)):
        if unknown := sorted(set(names) - set(known)):
            raise ValueError(f"not known: {', '.join(unknown)}; there are {', '.join(known)}")
    return [
        Cell(scenario, policy, seed, hours)
        for number, seed in enumerate(seeds)
        for scenario in scenarios
        for policy in policies
        if policy in _ONLY.get(scenario, (policy,)) and (scenario not in _DAYS or number < _DAY_SEEDS)
    ]


def digest(policy: str = OURS, root: Path = REPOSITORY) -> str:
    """Name the code that makes a policy's figures, so that no stale cell is reused."""
    found = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in root.glob(pattern)):
        if _counts(path.relative_to(root), policy):
            found.update(path.relative_to(root).as_posix().encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def _counts(path: Path, policy: str) -> bool:
    if path.is_relative_to(_TUNER) and policy != OURS:
        return path.relative_to(_TUNER).parts[0] in _SHARED
    return path.name not in _SHOWN_ONLY or "evaluation" not in path.parts
