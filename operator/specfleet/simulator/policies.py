"""The policies that are compared, by name. Rules of others are emulations: design/simulator.md, section 7."""

import random
from collections.abc import Callable, Mapping

from specfleet.api.schedule import flat
from specfleet.simulator.policy import Policy, keep
from specfleet.simulator.scenario import Scenario
from specfleet.simulator.state import EMA, IN_STEP, ORACLE
from specfleet.simulator.tables import correct_table, table_of_a_faster_gpu, table_of_code_prompts
from specfleet.tuning.decide import Outcome, decide
from specfleet.tuning.decision import Hold, Push
from specfleet.tuning.evidence import Evidence, usable
from specfleet.tuning.interval import Counts, pooled
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings

STATIC_DEPTHS = (1, 2, 3, 5)
LOWER, UPPER = 0.55, 0.75
EPSILON, LEARNING_RATE = 0.1, 0.1
LOAD_BINS = (16, 64)


class AcceptanceThreshold:
    """One depth deeper above 75 % accepted drafts, one shallower below 55 %, never off."""

    def __init__(self) -> None:
        self._depth = 2

    def __call__(self, settings: PoolSettings, evidence: Evidence, memory: Memory, now: float) -> Outcome:
        counts = pooled(interval.counts for interval in usable(evidence).intervals)
        if not counts.draft_tokens:
            return keep(settings, evidence, memory, now)
        rate = (counts.accepted_tokens or 0.0) / counts.draft_tokens
        wanted = self._depth + (rate > UPPER) - (rate < LOWER)
        wanted = min(max(wanted, 1), settings.max_depth)
        if wanted == self._depth:
            return keep(settings, evidence, memory, now)
        self._depth = wanted
        return Outcome(Push(flat(wanted), f"{rate:.0%} of the drafts are accepted"), memory, "Active")


class Bandit:
    """Epsilon-greedy on output tokens per second of the last interval, apart for three ranges of load."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._worth: dict[tuple[int, int], float] = {}
        self._depth = 2

    def __call__(self, settings: PoolSettings, evidence: Evidence, memory: Memory, now: float) -> Outcome:
        intervals = usable(evidence).intervals
        counts = pooled(interval.counts for interval in intervals)
        if not counts.all_steps:
            return Outcome(Hold("NoTraffic", "nothing has been decoded"), memory, "Active")
        load = _load_bin(counts)
        reward = sum((i.counts.generation_tokens or 0.0) / i.seconds for i in intervals)
        before = self._worth.get((load, self._depth), reward)
        self._worth[load, self._depth] = before + LEARNING_RATE * (reward - before)
        arms = [depth for depth in settings.candidates if depth <= settings.max_depth]
        # An arm that was never tried is tried first.
        wanted = max(arms, key=lambda depth: self._worth.get((load, depth), float("inf")))
        if self._random.random() < EPSILON:
            wanted = self._random.choice(arms)
        if wanted == self._depth:
            return keep(settings, evidence, memory, now)
        self._depth = wanted
        return Outcome(Push(flat(wanted), f"{reward:.0f} tokens/s"), memory, "Active")


def _load_bin(counts: Counts) -> int:
    batch = counts.all_sequence_steps / counts.all_steps
    return sum(batch >= border for border in LOAD_BINS)


def _static(depth: int) -> Callable[[Scenario], Policy]:
    return lambda _: Policy(f"static-{depth}", flat(depth))


POLICIES: Mapping[str, Callable[[Scenario], Policy]] = {
    "hard-off": lambda _: Policy("hard-off", flat(0), loaded=False),
    **{f"static-{depth}": _static(depth) for depth in STATIC_DEPTHS},
    "table-correct": lambda s: Policy("table-correct", correct_table(s)),
    "table-code": lambda s: Policy("table-code", table_of_code_prompts(s)),
    "table-fast-gpu": lambda s: Policy("table-fast-gpu", table_of_a_faster_gpu(s)),
    "acceptance-threshold": lambda _: Policy("acceptance-threshold", flat(2), AcceptanceThreshold),
    "ema": lambda _: Policy("ema", flat(2), rule=EMA),
    "bandit": lambda _: Policy("bandit", flat(2), Bandit),
    "in-step": lambda _: Policy("in-step", flat(2), rule=IN_STEP),
    "oracle": lambda _: Policy("oracle", flat(2), rule=ORACLE),
    "ours": lambda s: Policy("ours", flat(s.initial_depth), lambda: decide),
}
