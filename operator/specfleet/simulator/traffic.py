"""When requests arrive and how long they are: drawn before the run, so all policies serve the same ones.

Source: design/simulator.md, section 4.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from specfleet.simulator.acceptance import Text
from specfleet.simulator.layout import OUTCOMES
from specfleet.simulator.state import Requests

Shape = Literal["diurnal", "steady", "steps"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """``peak`` is a multiple of what the pods complete without speculation.

    ``steps``: (second, multiple of ``peak``) from which on it holds, for shape "steps". ``burst`` multiplies
    the rate for 90 s on average, once in ten minutes; ``two_state`` makes bursts and pauses of equal mean
    length out of it. ``shared``: share of prompt tokens that an earlier turn or request had as well, in
    ``shared_requests`` of the requests. ``copies``: answers per prompt (n). ``aborted``: share of requests
    that the client gives up on at a random token.
    """

    shape: Shape = "diurnal"
    peak: float = 1.0
    period: float = 7200.0
    steps: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    burst: float = 1.5
    two_state: bool = False
    long_share: float = 0.10
    prompt_log: tuple[float, float] = (6.2, 0.8)
    output_log: tuple[float, float] = (5.4, 0.8)
    shared: float = 0.0
    shared_requests: float = 0.0
    copies: int = 1
    aborted: float = 0.0

    def rates(self, seconds: int, capacity: float, random: np.random.Generator) -> np.ndarray:
        """Give arrivals per second, second by second. ``capacity``: completions/s without speculation."""
        at = np.arange(seconds)
        if self.shape == "diurnal":
            wave = (1.0 - np.cos(2.0 * np.pi * at / self.period)) / 2.0
            level = 0.18 + 0.82 * wave**1.3
        elif self.shape == "steps":
            starts = np.array([start for start, _ in self.steps])
            levels = np.array([level for _, level in self.steps])
            level = levels[np.maximum(0, np.searchsorted(starts, at, "right") - 1)]
        else:
            level = np.ones(seconds)
        return np.asarray(self.peak * capacity * level * self._bursts(seconds, random))

    def _bursts(self, seconds: int, random: np.random.Generator) -> np.ndarray:
        factor = np.ones(seconds)
        calm, busy = (90.0, 90.0) if self.two_state else (510.0, 90.0)
        at = random.exponential(calm)
        while at < seconds and self.burst != 1.0:
            until = at + random.exponential(busy)
            factor[int(at) : int(until) + 1] = self.burst
            at = until + random.exponential(calm)
        return factor


def draw_requests(traffic: Traffic, rates: np.ndarray, text: Text, random: np.random.Generator) -> Requests:
    """Draw the requests of a run."""
    arrivals = np.repeat(np.arange(len(rates)), random.poisson(rates / traffic.copies)).astype(float)
    arrivals = np.sort(arrivals + random.random(len(arrivals)))
    count = len(arrivals)
    prompt, output = draw_lengths(traffic, count, random)
    kind = _kinds(text, arrivals, random)
    turns = random.random(count) < traffic.shared_requests
    shared = np.where(turns, prompt * traffic.shared, 0.0).astype(np.int64)
    arrivals, prompt, kind, shared = (
        np.repeat(values, traffic.copies) for values in (arrivals, prompt, kind, shared)
    )
    if traffic.copies > 1:
        # All but the first find the whole prompt in the cache.
        shared = np.where(np.arange(len(prompt)) % traffic.copies > 0, prompt, shared)
        output = draw_lengths(traffic, len(prompt), random)[1]
    outcome = np.where(output >= 3000, OUTCOMES.index("length"), OUTCOMES.index("stop")).astype(np.int64)
    gone = random.random(len(prompt)) < traffic.aborted
    outcome[gone] = OUTCOMES.index("abort")
    cut = 1 + (random.random(len(prompt)) * output).astype(np.int64)
    output = np.where(gone, np.minimum(cut, output), output)
    lift = np.exp(text.spread * random.standard_normal(len(prompt)))
    return new_requests(arrivals, prompt, output, shared=shared, kind=kind, lift=lift, outcome=outcome)


def draw_lengths(traffic: Traffic, count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw prompt and output lengths in tokens."""
    short = random.lognormal(*traffic.prompt_log, count)
    long = random.lognormal(9.2, 0.4, count)
    prompt = np.where(random.random(count) < traffic.long_share, long, short)
    output = random.lognormal(*traffic.output_log, count)
    return np.clip(prompt, 16, 24000).astype(np.int64), np.clip(output, 8, 3000).astype(np.int64)


def new_requests(
    arrival: np.ndarray,
    prompt: np.ndarray,
    output: np.ndarray,
    *,
    shared: np.ndarray | None = None,
    kind: np.ndarray | None = None,
    lift: np.ndarray | None = None,
    outcome: np.ndarray | None = None,
) -> Requests:
    """Make requests that nobody has served yet, sorted by arrival."""
    count = len(arrival)
    whole = np.zeros(count, np.int64)
    return Requests(
        arrival=arrival.astype(float),
        prompt=prompt.astype(np.int64),
        output=output.astype(np.int64),
        shared=whole if shared is None else shared.astype(np.int64),
        kind=whole if kind is None else kind.astype(np.int64),
        lift=np.ones(count) if lift is None else lift,
        outcome=whole if outcome is None else outcome.astype(np.int64),
        home=np.full(count, -1, np.int64),
        prefill=prompt.astype(np.int64).copy(),
        generated=np.zeros(count, np.int64),
        idled=np.zeros(count, np.int64),
        preempted=np.zeros(count, np.int64),
        admitted=np.full(count, np.nan),
        first=np.full(count, np.nan),
        last=np.full(count, np.nan),
        finished=np.full(count, np.nan),
    )


def prompts_per_output(requests: Requests, hit_share: float) -> float:
    """Give prompt tokens per output token, less the share of shared ones that the prefix cache has."""
    prompt = requests.prompt.sum() - hit_share * requests.shared.sum()
    return float(prompt / max(1, requests.output.sum()))


def _kinds(text: Text, arrivals: np.ndarray, random: np.random.Generator) -> np.ndarray:
    sums = np.cumsum(text.mix, axis=1)[arrivals.astype(np.int64)]
    return np.asarray((random.random(len(arrivals))[:, None] > sums[:, :-1]).sum(axis=1))
