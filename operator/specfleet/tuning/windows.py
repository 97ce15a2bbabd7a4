"""Windows: mean step times as measured, in a reservoir that keeps what tells depths apart.

The machine drifts, so a depth is judged by the spans right before and after its probe (`drift`). These
spans outlive the other windows of their cell. Source: design/tuning.md, section 5, "Data".
"""

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

MAX_AGE_SECONDS = 4 * 3600.0
MAX_AGE_WITHOUT_SECONDS = 24 * 3600.0  # such windows cost a restart
WITHOUT = -1
PER_CELL = 8
BESIDE_PER_CELL = 24  # spans beside a change of depth: two on each side of six probes
BESIDE = 2
MOST = 160  # in all: a fit takes time with the cube of it, and memory is one ConfigMap
LEAST_WINDOW_STEPS = 50.0  # shorter ones are joined with the next
JOINED_SECONDS = 30.0
MIN_STEPS = 10.0
MOST_CHUNK = 2048.0  # prompt tokens of one step: vLLM's default budget


@dataclass(frozen=True, slots=True)
class Window:
    """Mean step time of one depth over some steps.

    ``tokens`` is N, batch and drafts together; ``cached`` is KV, the tokens that attention read;
    ``prompts`` are the prompt tokens that a mean step read beside them, in chunks of ``chunk``, known to
    ``prompts_sd`` of themselves.
    ``loaded`` False: the engine was started without the proposer that this pool has at other times.
    """

    at: float
    depth: int
    batch: float
    tokens: float
    seconds: float
    steps: float
    cached: float = 0.0
    prompts: float = 0.0
    chunk: float = MOST_CHUNK
    loaded: bool = True
    prompts_sd: float = 0.0

    @property
    def arm(self) -> int:
        """What was measured: a depth, or the engine without its proposer."""
        return self.depth if self.loaded else WITHOUT

    @property
    def cell(self) -> tuple[int, int]:
        return self.arm, self.batch_cell

    @property
    def batch_cell(self) -> int:
        return round(2 * math.log2(max(self.batch, 1.0)))


Windows = tuple[Window, ...]


def beside(batch: float) -> float:
    """Say which share of the prompts is read in steps that decode.

    A request that is alone reads its prompt in steps of its own. With Poisson arrivals, L requests on average
    and B while there are any, B = L / (1 - exp(-L)) and the share is 1 - exp(-L): .80 at B = 2, .98 at 4.
    """
    return 1.0 - math.exp(-1.6 * (max(batch, 1.0) - 1.0))


def prompts_sd(share: float, requests: float) -> float:
    """Give the relative standard deviation of the prompt tokens that a window's steps read.

    Engines count prompts, not the steps that read them, so steps that are a ``share`` of all are given that
    share of the prompts of ``requests`` first tokens. In truth prompts come in bursts, and with them the
    batch, and so the depth. Measured: 10,373 windows of the simulator err by .94 of this (decision 181).
    """
    if requests <= 0.0 or share <= 0.0:
        return 0.0
    return math.sqrt(0.25 / requests + (1.0 - share) / share * (0.1 + 2.0 / requests))


def remember(windows: Windows, new: Window) -> Windows:
    """Add a window, join it with the one before if that is short, and make room in its cell."""
    kept = tuple(
        w for w in windows if new.at - w.at <= (MAX_AGE_SECONDS if w.loaded else MAX_AGE_WITHOUT_SECONDS)
    )
    cell = new.cell
    last = max((w for w in kept if w.cell == cell), key=lambda w: w.at, default=None)
    if last is not None and _unfinished(last, new, kept):
        kept = tuple(w for w in kept if w is not last)
        new = _joined(last, new)
    return _limited(_trimmed((*kept, new), new))


def _unfinished(last: Window, new: Window, windows: Windows) -> bool:
    other_since = any(w.arm != new.arm and w.at > last.at for w in windows)
    return last.steps < LEAST_WINDOW_STEPS and new.at - last.at <= JOINED_SECONDS and not other_since


def _joined(one: Window, other: Window) -> Window:
    steps = one.steps + other.steps
    prompts = [window.prompts * window.steps for window in (one, other)]
    doubts = math.hypot(prompts[0] * one.prompts_sd, prompts[1] * other.prompts_sd)

    def mean(first: float, second: float) -> float:
        return (first * one.steps + second * other.steps) / steps

    return Window(
        at=other.at,
        depth=one.depth,
        batch=mean(one.batch, other.batch),
        tokens=mean(one.tokens, other.tokens),
        seconds=mean(one.seconds, other.seconds),
        steps=steps,
        cached=mean(one.cached, other.cached),
        prompts=mean(one.prompts, other.prompts),
        chunk=mean(one.chunk, other.chunk),
        loaded=one.loaded,
        prompts_sd=doubts / sum(prompts) if any(prompts) else 0.0,
    )


def _trimmed(windows: Windows, new: Window) -> Windows:
    arm, batch_cell = new.cell
    cell = sorted((w for w in windows if w.cell == (arm, batch_cell)), key=lambda w: w.at)
    others = [w.at for w in windows if w.arm != arm and abs(w.batch_cell - batch_cell) <= 1]
    beside = _beside(cell, others)
    plain = [w for w in cell if w not in beside]
    gone = {*plain[: max(0, len(plain) - PER_CELL)], *beside[: max(0, len(beside) - BESIDE_PER_CELL)]}
    return tuple(w for w in windows if w not in gone) if gone else windows


def _limited(windows: Windows) -> Windows:
    """Let the fullest cell give its oldest, so that quiet cells are not forgotten."""
    if len(windows) <= MOST:
        return windows
    ((fullest, _),) = Counter(w.cell for w in windows).most_common(1)
    oldest = min((w for w in windows if w.cell == fullest), key=lambda w: w.at)
    return tuple(w for w in windows if w is not oldest)


def _beside(cell: list[Window], others: list[float]) -> list[Window]:
    """Give those right before or after a window of another depth, oldest first."""
    times = [w.at for w in cell]
    found: set[int] = set()
    for at in others:
        after = bisect_right(times, at)
        found.update(range(max(0, after - BESIDE), min(len(cell), after + BESIDE)))
    return [cell[i] for i in sorted(found)]
