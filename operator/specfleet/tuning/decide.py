"""One pool, one pass: settings, evidence and memory in, one decision with its reason out. Pure.

Order: what the user orders, then the end of a probe, then doubts about data and actuator, then floors and
the optimiser, then what to try next. Source: design/tuning.md, sections 7 to 11.
"""

from dataclasses import dataclass, replace

from specfleet.api.schedule import Document, Table, depth_for
from specfleet.tuning.aftermath import remembered
from specfleet.tuning.bins import bins
from specfleet.tuning.cost import StepCost
from specfleet.tuning.decision import Decision, EndProbe, Hold, Probe, Push
from specfleet.tuning.doubt import FULL_WINDOW_PASSES, doubts
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.evidence import Evidence, Usable, data_fault, usable
from specfleet.tuning.floors import WORST_OF_SECONDS
from specfleet.tuning.hard_off import advised, allowed, considered, due, judged, reload, settled
from specfleet.tuning.learn import learn
from specfleet.tuning.measure import Figures, figures
from specfleet.tuning.memory import Memory, ProbeRun
from specfleet.tuning.move import choose, exhausted, gain_over_depth_zero, recommended
from specfleet.tuning.optimise import Situation
from specfleet.tuning.probes import Target, after_jump, further, over, refusal, target
from specfleet.tuning.restart import is_calm
from specfleet.tuning.rows import changed, clipped, written
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.state import State, state_of
from specfleet.tuning.verify import verified
from specfleet.tuning.windows import MOST_CHUNK

PROBE_WIDTH = 1.4  # a probe covers that range around the batch in use
SLOW_PASSES = 2


@dataclass(frozen=True, slots=True)
class Advice:
    """What Recommend shows: the table it would push, and ln(J_new / J_old) over the load."""

    table: Table
    gain: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """``gain``: J of the table in force over J of depth 0, less 1, at the load in use.

    ``hard_off``: why the pool is better off without its proposer; None: it is not, or that is in force.
    """

    decision: Decision
    memory: Memory
    state: State
    figures: Figures | None = None
    data_fault: Hold | None = None
    advice: Advice | None = None
    gain: float | None = None
    hard_off: str | None = None


def decide(settings: PoolSettings, evidence: Evidence, memory: Memory, now: float) -> Outcome:
    """Decide for one pool. ``now`` is seconds since the epoch."""
    document = evidence.document
    if document is None:
        return Outcome(Hold("NoSchedule", "there is no schedule yet"), memory, "Pending")
    memory = considered(settings, evidence, memory)
    if _has_pods_without(memory, evidence):
        evidence = replace(evidence, missing={})  # of drafts, in pods that make none
    asked, settings = settings, allowed(settings, memory)
    used = usable(evidence)
    memory, fault = _take_in(settings, evidence, memory, used, document, now)
    situation = _situation(settings, memory, document, now)
    estimates = _estimates(asked, memory, now)
    if estimates is not None and fault is None and asked.max_depth > 0:
        memory = settled(asked, judged(asked, memory, estimates, now), now)
    calm = is_calm(asked, memory, serving=bool(evidence.expected))
    known = _Known(document, situation, estimates, calm)
    decision = _decide(settings, evidence, memory, fault, known, now)
    memory = remembered(memory, decision, known, settings, now)
    advice = None
    if settings.tuning.mode == "Recommend" and estimates is not None and fault is None:
        advice = Advice(*recommended(estimates, situation))
    return Outcome(
        decision=decision,
        memory=memory,
        state=state_of(evidence, memory, fault, known),
        figures=figures(evidence, used, memory),
        data_fault=fault,
        advice=advice,
        gain=gain_over_depth_zero(estimates, situation) if estimates is not None else None,
        hard_off=advised(settings, memory, now),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    document: Document
    situation: Situation
    estimates: Estimates | None
    calm: bool


def _has_pods_without(memory: Memory, evidence: Evidence) -> bool:
    return bool(memory.without) and memory.without in evidence.fingerprints


def _take_in(
    settings: PoolSettings, evidence: Evidence, memory: Memory, used: Usable, document: Document, now: float
) -> tuple[Memory, Hold | None]:
    if not evidence.expected:
        return replace(memory, good_passes=0, faulty=False, seen_at=now), None
    recent = tuple(drop for drop in memory.dropped if now - drop[0] < WORST_OF_SECONDS)
    total = used.dropped + len(used.intervals)
    memory = replace(memory, dropped=(*recent, (now, used.dropped, total)))
    fault = data_fault(evidence, used, memory.dropped)
    if fault is not None:
        return replace(memory, good_passes=0, faulty=True), fault
    all_bins = bins(settings.max_requests)
    memory = learn(memory, used, evidence, settings, all_bins, now)
    # Pods without the proposer need not follow: on some engines they have no plug-in.
    if evidence.follows_schedule and not _has_pods_without(memory, evidence):
        memory = verified(memory, used, document, settings)
    if used.intervals:
        good = memory.good_passes + 1
        memory = replace(memory, good_passes=good, faulty=memory.faulty and good < FULL_WINDOW_PASSES)
    return memory, None


def _situation(settings: PoolSettings, memory: Memory, document: Document, now: float) -> Situation:
    table = memory.probe.back_to if memory.probe else document.table
    all_bins = bins(settings.max_requests)
    return Situation(table, all_bins, memory.load, settings.candidates, memory.steadiness, now)


def _estimates(settings: PoolSettings, memory: Memory, now: float) -> Estimates | None:
    if not memory.windows:
        return None
    throughput = memory.slow_passes >= SLOW_PASSES
    context, chunk = memory.context or 0.0, memory.chunk or MOST_CHUNK
    cost = StepCost(
        memory.windows,
        now,
        context=context,
        chunk=chunk,
        knee_tokens=settings.knee_tokens,
        taxed=settings.max_depth > 0,
    )
    estimates = Estimates(memory.survival, cost, memory.rho or 0.0, throughput)
    estimates.prepare([one.middle for one in bins(settings.max_requests)], settings.candidates)
    return estimates


def _decide(
    settings: PoolSettings, evidence: Evidence, memory: Memory, fault: Hold | None, known: _Known, now: float
) -> Decision:
    ordered = _ordered(settings, memory, known, now)
    if ordered is not None:
        return ordered
    if memory.restore is not None and evidence.fingerprints == {memory.fingerprint}:
        table = clipped(memory.restore, settings.max_requests, settings.max_depth)
        reason = "the proposer is loaded again: the table from before"
        return exhausted(settings, memory, reason, now) or Push(table, reason)
    doubt = fault or doubts(settings, evidence, memory)
    if memory.probe is not None:
        return _while_probing(memory.probe, doubt, settings, memory, known, now)
    if doubt is not None:
        return doubt
    if known.estimates is not None and (off := due(settings, memory, known.estimates, now)) is not None:
        return off
    move = _move(settings, memory, known, now)
    return (_probe(settings, memory, known, now) or move) if isinstance(move, Hold) else move


def _while_probing(
    probe: ProbeRun, doubt: Hold | None, settings: PoolSettings, memory: Memory, known: _Known, now: float
) -> Decision:
    ended = over(memory, settings, now)
    if ended is None:
        return Hold("Probing", f"a probe of depth {probe.depth} is running")
    move = _move(settings, memory, known, now) if doubt is None else doubt
    return EndProbe(known.situation.table, ended) if isinstance(move, Hold) else move


def _move(settings: PoolSettings, memory: Memory, known: _Known, now: float) -> Decision:
    """Push what is best, unless a probe may show at once that deeper is better still."""
    move = choose(settings, memory, known, now)
    if not isinstance(move, Push) or known.estimates is None or _lowers(move.table, memory, known):
        return move
    if after_jump(memory):
        return _probe(settings, memory, known, now) or move
    found = depth_for(move.table, _running(memory))
    chosen = further(memory, known.estimates, found, settings.candidates)
    if chosen is None or refusal(memory, settings, now) is not None:
        return move
    return _probe_of(chosen, settings, memory, known)


def _lowers(table: Table, memory: Memory, known: _Known) -> bool:
    running = _running(memory)
    return depth_for(table, running) < depth_for(known.situation.table, running)


def _running(memory: Memory) -> int:
    return max(1, round(memory.batch or 1.0))


def _ordered(settings: PoolSettings, memory: Memory, known: _Known, now: float) -> Decision | None:
    """What the user orders comes first and needs no data."""
    document, back = known.document, known.situation.table
    if settings.tuning.paused:
        hold = Hold("Paused", "tuning is paused: the schedule stays as it is")
        return EndProbe(back, "tuning is paused") if memory.probe else hold
    if (loads := reload(settings, memory, known.estimates, now, calm=known.calm)) is not None:
        return loads
    if settings.pin is not None:
        reason = f"tuning.schedule pins {written(settings.pin)}"
        return Hold("Pinned", reason) if settings.pin == document.table else Push(settings.pin, reason)
    # Pods that are started with their table have none without the proposer, and come back with this one.
    keeps = memory.unloaded is not None and settings.actuator == "rollout"
    if not keeps and any(row.depth > settings.max_depth for row in document.table):
        why = "there is no proposer" if memory.unloaded else f"depth.max is {settings.max_depth}"
        table = clipped(back, settings.max_requests, settings.max_depth)
        return Push(table, f"{why}: engines would refuse a deeper table")
    if memory.probe is not None and settings.tuning.mode != "Enforce":
        return EndProbe(back, f"mode {settings.tuning.mode} does not try depths")
    return None


def _probe(settings: PoolSettings, memory: Memory, known: _Known, now: float) -> Decision | None:
    blind = depth_for(known.situation.table, _running(memory)) == 0
    refused = refusal(memory, settings, now, blind=blind)
    if known.estimates is None or not _moving(memory, now) or refused is not None:
        return None
    chosen = target(memory, known.estimates, known.situation, settings, now)
    return _probe_of(chosen, settings, memory, known) if chosen is not None else None


def _probe_of(chosen: Target, settings: PoolSettings, memory: Memory, known: _Known) -> Probe:
    batch = memory.batch or 1.0
    first, last = int(batch / PROBE_WIDTH), batch * PROBE_WIDTH + 1
    table = changed(
        known.situation.table,
        settings.max_requests,
        lambda running, depth: chosen.depth if first <= running <= last else depth,
    )
    return Probe(table, chosen.depth, chosen.reason)


def _moving(memory: Memory, now: float) -> bool:
    return any(window.at == now for window in memory.windows)
