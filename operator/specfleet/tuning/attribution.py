"""Which depth the steps of an interval ran at, where the engine does not count steps by depth.

Stock vLLM and SGLang do not. What they do count is turned into the counts that the tuner learns from, so that
it has one way to learn: decode events are steps of a sequence, and drafted and accepted tokens are shared
out to depths of the table in force. What cannot be told is left out. Source: design/tuning.md, sections
3.3, 3.5 and 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from specfleet.api.schedule import Table, depth_for
from specfleet.tuning.interval import Counts, PodInterval

BATCH_SLACK = 0.2  # a mean batch hides a range
MOST_KEPT = 1.02
DEPTH_SLACK = 0.02  # drafts that a grammar shortened
ONE_DEPTH = 0.95  # of the steps: then their mean time is that depth's
LEAST_VERIFICATIONS = 200.0


@dataclass(frozen=True, slots=True)
class Attributed:
    """``interval`` with its steps by depth, as far as they can be told.

    ``fits`` False: the drafts are of no depth in the table, so nothing may be learnt from them.
    """

    interval: PodInterval
    fits: bool = True


def attributed(interval: PodInterval, table: Table | None, variable_drafts: bool) -> Attributed:
    """Tell an interval's steps by depth.

    ``table`` was in force throughout; None: more than one was, and only what the engine says of itself can
    be told. ``variable_drafts``: the proposer may propose less than the depth allows, as n-gram does. An
    interval with steps by depth comes back with its delivered positions as the accepted ones.
    """
    counts = interval.counts
    if counts.all_steps:
        delivered = counts.delivered_positions or counts.accepted_positions
        return Attributed(replace(interval, counts=replace(counts, accepted_positions=delivered)))
    if not counts.inter_token_seconds or interval.seconds <= 0:
        return Attributed(interval)
    batch = counts.inter_token_seconds / interval.seconds  # Little's law, no sampling error
    if counts.inter_token_events is None:
        return Attributed(_from_gauges(interval, batch))
    if not counts.inter_token_events or table is None:
        return Attributed(interval)
    depths, near = frozenset(row.depth for row in table), near_depths(table, batch)
    if interval.running:
        near |= {depth_for(table, round(interval.running))}  # the load has moved since
    shared, fits = _shared(counts, near, depths, variable_drafts)
    if shared is None:
        return Attributed(interval)
    counts = _completed(counts, shared, batch, variable_drafts)
    return Attributed(replace(interval, counts=counts, positions_assumed=variable_drafts), fits)


def near_depths(table: Table, batch: float) -> frozenset[int]:
    """Give the depths that a table has around a mean batch."""
    lowest, highest = max(1, int(batch * (1 - BATCH_SLACK))), int(batch * (1 + BATCH_SLACK)) + 1
    return frozenset(depth_for(table, running) for running in range(lowest, highest + 1))


def two_depths(drafts: float, draft_tokens: float, low: int, high: int) -> tuple[float, float]:
    """Give how many drafts had each of two depths, if all were as long as their depth allows.

    Outside 0..``drafts`` these are not the depths that were run.
    """
    deep = (draft_tokens - low * drafts) / (high - low)
    return drafts - deep, deep


def kept_share(counts: Counts) -> float | None:
    """Say which share of the accepted tokens reached a user; None: nothing was accepted.

    Accepted tokens beyond a stop or the length limit are counted and cut (E4). What was kept is what decode
    steps gave beyond one token each: with R tokens a decode event, eta = (R - 1) / (accepted / drafts) of
    section 4 is this share times drafts / events, and carries steps without a proposal as well.
    """
    tokens, events, accepted = counts.decode_tokens, counts.inter_token_events, counts.accepted_tokens
    if tokens is None or events is None or not accepted:
        return None
    return min(MOST_KEPT, max(0.0, tokens - events) / accepted)


def acceptance_of(length: float, depth: int) -> float:
    """Solve alpha from AL = (1 - alpha^(k+1)) / (1 - alpha): each token of a draft is accepted with alpha.

    ``length``: tokens of a decode step, bonus token included; 1 and less give 0, k + 1 and more give 1.
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if sum(middle**i for i in range(depth + 1)) < length:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _shared(
    counts: Counts, near: frozenset[int], depths: frozenset[int], variable: bool
) -> tuple[Mapping[int, float] | None, bool]:
    """Give decode events by depth, and whether drafts fit the table; None: several answers are possible."""
    events, drafts, tokens = (
        counts.inter_token_events or 0.0,
        counts.drafts or 0.0,
        counts.draft_tokens or 0.0,
    )
    if variable:
        # A step without a proposal looks like one at depth 0, a short draft like a low depth.
        return (dict.fromkeys(near, events) if len(near) == 1 else None), True
    positive = sorted(depths - {0})
    if len(positive) > 2:
        positive = sorted(near - {0})
    if not drafts or not positive:
        return {0: events}, True
    if len(positive) > 2:
        return None, True
    low, high = positive[0], positive[-1]
    if low == high:
        by_depth = {low: drafts}
        fits = abs(tokens / drafts - low) <= DEPTH_SLACK * low
    else:
        shallow, deep = two_depths(drafts, tokens, low, high)
        fits = min(shallow, deep) >= -DEPTH_SLACK * drafts
        by_depth = {low: max(0.0, min(drafts, shallow)), high: max(0.0, min(drafts, deep))}
    if 0 in depths:
        by_depth[0] = max(0.0, events - drafts)
    scale = events / sum(by_depth.values())
    return {depth: scale * n for depth, n in by_depth.items() if n > 0.0}, fits


def _completed(counts: Counts, shared: Mapping[int, float], batch: float, variable: bool) -> Counts:
    kept = kept_share(counts)
    return replace(
        _timed(counts, shared, batch),
        draft_positions=_proposed(counts, shared, variable),
        accepted_positions={i: (kept or 0.0) * n for i, n in counts.accepted_positions.items()},
    )


def _timed(counts: Counts, shared: Mapping[int, float], batch: float) -> Counts:
    """Add steps of a sequence, steps, and seconds where all of them were at one depth."""
    events = sum(shared.values())
    steps = {depth: n / max(1.0, batch) for depth, n in shared.items()}
    main = max(shared, key=lambda depth: shared[depth])
    seconds = {}
    if shared[main] >= ONE_DEPTH * events and counts.inter_token_seconds is not None:
        seconds = {main: steps[main] * counts.inter_token_seconds / events}
    return replace(counts, sequence_steps=shared, steps=steps, step_seconds=seconds)


def _proposed(counts: Counts, shared: Mapping[int, float], variable: bool) -> Mapping[int, float]:
    """Say how many drafts proposed each position: exact for drafts of full length.

    Others: what was accepted had been proposed, and the rest is spread evenly over the later positions.
    """
    drafts, accepted = counts.drafts or 0.0, counts.accepted_positions
    deepest = max(shared)
    if not drafts:
        return dict.fromkeys(range(1, deepest + 1), 0.0)
    if not variable:
        drafting = sum(n for depth, n in shared.items() if depth > 0)
        reached = {i: sum(n for d, n in shared.items() if d >= i) for i in range(1, deepest + 1)}
        return {i: n * drafts / drafting for i, n in reached.items()}
    later = range(2, deepest + 1)
    rest = (counts.draft_tokens or 0.0) - drafts - sum(accepted.get(i, 0.0) for i in later)
    return {1: drafts, **{i: accepted.get(i, 0.0) + max(0.0, rest) / len(later) for i in later}}


def _from_gauges(interval: PodInterval, batch: float) -> PodInterval:
    """Use the depth that the engine names, and the length of what it accepts, for want of counters."""
    counts, depth = interval.counts, interval.depth
    tokens = counts.decode_tokens
    if depth is None or depth != int(depth) or not tokens or tokens <= 0.0:
        return interval
    depth = int(depth)
    length = tokens_per_step(interval) if depth else 1.0
    # A proposer without steps (n-gram) shows depth 0 too, and its tokens then give it away.
    if length is None or (not depth and (interval.accepted_length or 0.0) > 1.0):
        return interval
    length = min(max(length, 1.0), depth + 1.0)
    sequence_steps = tokens / length
    alpha = acceptance_of(length, depth)
    counts = replace(
        _timed(counts, {depth: sequence_steps}, batch),
        inter_token_events=sequence_steps,
        drafts=sequence_steps if depth else 0.0,
        draft_tokens=depth * sequence_steps,
        accepted_tokens=(length - 1.0) * sequence_steps,
        draft_positions=dict.fromkeys(range(1, depth + 1), sequence_steps),
        accepted_positions={i: alpha**i * sequence_steps for i in range(1, depth + 1)},
    )
    return replace(interval, counts=counts, positions_assumed=True)


def tokens_per_step(interval: PodInterval) -> float | None:
    """Give R, tokens of a decode event: of the requests that ended, else what the engine last said.

    Both of its counts move when a request ends (E5), so few of them say little.
    """
    counts = interval.counts
    steps, tokens, requests = counts.finished_verifications, counts.finished_tokens, counts.completions
    if steps is not None and steps >= LEAST_VERIFICATIONS and tokens is not None and requests is not None:
        return (tokens - requests) / steps
    return interval.accepted_length or None
