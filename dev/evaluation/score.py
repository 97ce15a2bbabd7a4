"""One run in numbers: what its users waited for, what its depths were worth, what its controller did.

Source: design/simulator.md, sections 8 and 9.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from dev.evaluation.model_error import model_errors
from dev.evaluation.worth import Worth

from specfleet.api.schedule import Table, depth_for
from specfleet.simulator.acceptance import COLLAPSE_FROM, COLLAPSE_SECONDS
from specfleet.simulator.run import LONGEST_TAIL, Run
from specfleet.tuning.bins import bins
from specfleet.tuning.decision import Decision, EndProbe, HardOff, LoadProposer, Probe, Push

FIRST_HOURS = 2 * 3600.0
CLOSE = 0.95  # of the oracle's J
REACTION_WINDOW, RECOVERY_WINDOW = 10, 60  # seconds


def score(run: Run, worth: Worth) -> dict[str, Any]:
    """Give all figures of a run. Times in seconds; None: does not apply."""
    latency = latencies(run)
    early = run.requests.arrival < FIRST_HOURS
    return {
        "requests": len(latency),
        "unfinished": int(np.isnan(run.requests.finished).sum()),
        "latency": float(latency.mean()),
        "earlyLatency": float(latency[early].mean()),
        "violations": float(violations(run).mean()),
        "regret": worth.regret,
        "depth": worth.mean_depth,
        "switches": worth.switches / (run.scenario.seconds / 3600.0),
        **_moves(run),
        **_collapse(run, worth.ratio),
        **model_errors(run),
        "movesWithoutData": moves_without_data(run),
        "queries": run.prometheus.queries,
    }


def latencies(run: Run) -> np.ndarray:
    """Give each request's time from arrival to last token; one that never ended waits to the end of all."""
    ended = np.nan_to_num(run.requests.finished, nan=run.scenario.seconds + LONGEST_TAIL)
    return np.asarray(ended - run.requests.arrival)


def violations(run: Run) -> np.ndarray:
    """Say which requests got their first token, or the others, later than promised."""
    requests, service = run.requests, run.scenario.service
    limit = np.where(requests.prompt > service.long_prompt, service.long_first_token, service.first_token)
    late = ~(requests.first - requests.arrival <= limit)
    each = (requests.finished - requests.first) / np.maximum(requests.output - 1, 1)
    return np.asarray(late | ~(each < service.token))


def _moves(run: Run) -> dict[str, Any]:
    pushes = [one for one in run.passes if isinstance(one.outcome.decision, Push)]
    times = [one.at for one in pushes]
    hours = run.scenario.seconds / 3600.0
    tables = [run.documents[0][1].table, *(one.outcome.decision.table for one in pushes)]  # type: ignore[union-attr]
    per_bin = [reversals(tables, one.last) for one in bins(run.scenario.limits.max_requests)]
    return {
        "pushes": len(pushes) / hours,
        "pushesWorstHour": max((sum(0.0 <= late - at < 3600.0 for late in times) for at in times), default=0),
        "probes": sum(isinstance(one.outcome.decision, Probe) for one in run.passes) / hours,
        "reversals": 24.0 / hours * float(np.mean(per_bin)),
        "reversalsWorst": 24.0 / hours * float(max(per_bin)),
    }


def reversals(tables: Sequence[Table], running: int) -> int:
    """Count how often the depth of a batch changed its direction."""
    depths = [depth_for(table, running) for table in tables]
    changes = [late - early for early, late in pairwise(depths) if late != early]
    return sum(late * early < 0 for early, late in pairwise(changes))


def _collapse(run: Run, ratio: np.ndarray) -> dict[str, float | None]:
    """Seconds from a collapse, and from its end, until depths are close to the oracle's again."""
    start = int(COLLAPSE_FROM * run.scenario.seconds)
    end = start + int(COLLAPSE_SECONDS)
    if not run.scenario.acceptance.collapse or end + RECOVERY_WINDOW > len(ratio):
        return {"reaction": None, "recovery": None}
    return {
        "reaction": until_close(ratio[start:end], REACTION_WINDOW),
        "recovery": until_close(ratio[end:], RECOVERY_WINDOW),
    }


def until_close(ratio: np.ndarray, window: int) -> float:
    """Give the end of the first window whose mean is close to 1; all of the time if there is none.

    0 if the very first one is: nothing had to change.
    """
    for start in range(len(ratio) - window + 1):
        part = ratio[start : start + window]
        if not np.isnan(part).all() and np.nanmean(part) >= CLOSE:
            return float(start + window if start else 0)
    return float(len(ratio))


def moves_without_data(run: Run) -> int:
    """Count depths that were raised, and proposers that were taken or given, while data were bad.

    An outage, a time without scrapes or of NaN counts from three scrape intervals after its begin, when old
    data are used up, until one after its end; a storm of restarts from its first one to an interval after its
    last.
    """
    slack = run.scenario.telemetry.scrape_seconds
    faults = run.scenario.faults
    bad = [
        (fault.start + 3 * slack, fault.start + fault.seconds + slack)
        for fault in faults
        if fault.kind in ("outage", "not-scraped", "nan")
    ]
    if crashes := [fault for fault in faults if fault.kind == "crash"]:
        ends = max(fault.start + fault.seconds for fault in crashes)
        bad.append((min(fault.start for fault in crashes), ends + slack))
    return sum(
        any(start <= one.at < end for start, end in bad)
        for before, one in pairwise(_with_tables(run))
        if _raises(before.table, one)
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A decision and the table that is in force after it."""

    at: float
    decision: Decision | None
    table: Table


def _with_tables(run: Run) -> list[_Step]:
    steps = [_Step(0.0, None, run.documents[0][1].table)]
    for one in run.passes:
        decision = one.outcome.decision
        table = decision.table if isinstance(decision, Push | Probe | EndProbe) else steps[-1].table
        steps.append(_Step(one.at, decision, table))
    return steps


def _raises(before: Table, step: _Step) -> bool:
    if isinstance(step.decision, HardOff | LoadProposer):
        return True
    ends = [row.max_requests or 0 for table in (before, step.table) for row in table]
    moved = isinstance(step.decision, Push | Probe)
    return moved and any(
        depth_for(step.table, batch) > depth_for(before, batch) for batch in (*ends, max(ends) + 1)
    )


def seconds_to_final_depth(run: Run, worth: Worth, since: float, within: float) -> float:
    """Seconds from a change of load until the row of the largest batch got the depth that it kept.

    0: it had it already, and the engines followed within a step. ``within``: what it kept was not close to
    the oracle's, so the table was never put right. Probes do not count as changes.
    """
    rows = np.concatenate([trace.rows[int(since) : int(since + within)] for trace in run.traces])
    batch = int(np.nanmax(rows[:, 0]))
    moves = [(0.0, run.documents[0][1].table)]
    moves += [
        (one.at, one.outcome.decision.table) for one in run.passes if isinstance(one.outcome.decision, Push)
    ]
    depths = [(at, depth_for(table, batch)) for at, table in moves if at < since + within]
    last = max((at for (_, old), (at, new) in pairwise(depths) if new != old), default=-math.inf)
    after = max(0.0, last - since)
    return after if stays_close(worth.ratio[int(since + after) : int(since + within)]) else within


def stays_close(ratio: np.ndarray) -> bool:
    """Say whether depths were close to the oracle's in the mean of all seconds with load."""
    busy = ratio[~np.isnan(ratio)]
    return bool(len(busy)) and bool(busy.mean() >= CLOSE)
