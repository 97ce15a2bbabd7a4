"""The tuner's part of status: per pool what was measured and decided, the printer columns, two conditions.

Figures are rounded to what they are good for, so that an unchanged pool gives an unchanged status. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specfleet.api.kinds import SPECULATIVE_DEPLOYMENT, Object
from specfleet.api.schedule import Document, Table, flat, to_rows
from specfleet.controller.fleet import PoolView
from specfleet.controller.measured import measured, number, time_text
from specfleet.engines.engine import Actuator
from specfleet.engines.extra_arguments import has_weights
from specfleet.planning.served import IN_FORCE
from specfleet.tuning.decide import Outcome
from specfleet.tuning.rejection import HARDLY_ACCEPTED
from specfleet.tuning.rows import written

OWN_CONDITIONS = ("MetricsAvailable", "SpeculationActive")
OWN_POOL_FIELDS = (
    "state",
    "schedule",
    "probe",
    "recommendation",
    "measured",
    "lastDecision",
    "fault",
    "hardOff",
)
LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class PoolReport:
    """One pool after a pass. ``decided_at``: since when that decision stands.

    ``actuator``: what a push does to the pods.
    """

    view: PoolView
    outcome: Outcome
    decided_at: float
    applied: int
    actuator: Actuator


def action(outcome: Outcome) -> str:
    return type(outcome.decision).__name__


def status_body(reports: Sequence[PoolReport], now: float) -> Object:
    """Write the body for `ClusterClient.apply_status` under the tuner's manager."""
    live = reports[0].view.live
    metadata = {key: live["metadata"][key] for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": SPECULATIVE_DEPLOYMENT.api_version,
        "kind": SPECULATIVE_DEPLOYMENT.kind,
        "metadata": metadata,
        "status": {
            "summary": _summary(reports),
            "pools": [_pool(report) for report in reports],
            "conditions": [_metrics_available(reports, live, now), _speculation_active(reports, live, now)],
        },
    }


def comparable(status: Object) -> Object:
    """Give the tuner's part of a status without times: a new time stamp alone is no reason to write."""
    pools = {
        pool["name"]: {key: _without_times(pool[key]) for key in OWN_POOL_FIELDS if key in pool}
        for pool in status.get("pools") or ()
    }
    conditions = {
        entry["type"]: _without_times(entry)
        for entry in status.get("conditions") or ()
        if entry["type"] in OWN_CONDITIONS
    }
    return {"summary": status.get("summary") or {}, "pools": pools, "conditions": conditions}


def _without_times(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: item for key, item in value.items() if key not in ("time", "sampledAt", "lastTransitionTime")
    }


def _pool(report: PoolReport) -> Object:
    outcome, document = report.outcome, report.view.document
    probe, fault = outcome.memory.probe, outcome.memory.fault
    body: Object = {
        "name": report.view.pool.name,
        "state": outcome.state,
        "lastDecision": {
            "time": time_text(report.decided_at),
            "action": action(outcome),
            "reason": outcome.decision.reason[:LONGEST_REASON],
        },
    }
    if document is not None:
        body["schedule"] = {
            "version": document.version,
            "table": to_rows(probe.back_to if probe else _in_force(report, document)),
            "pushedAt": time_text(document.issued_at.timestamp()),
            "appliedReplicas": report.applied,
        }
    if probe is not None:
        body["probe"] = f"depth {probe.depth} at {probe.batch:.1f} running requests"
    if outcome.advice is not None:
        body["recommendation"] = {
            "table": to_rows(outcome.advice.table),
            "expectedGainPercent": number(100.0 * outcome.advice.gain),
            "appliedBy": report.actuator,
        }
    if outcome.figures is not None:
        body["measured"] = measured(outcome.figures, outcome.gain)
    if fault is not None:
        body["fault"] = {"reason": fault.reason, "message": fault.message}
    if (hard_off := _hard_off(outcome)) is not None:
        body["hardOff"] = hard_off
    return body


def _hard_off(outcome: Outcome) -> Object | None:
    """What reconcile follows when it is in force, and users when it is advised."""
    unloaded, judged = outcome.memory.unloaded, outcome.memory.judged
    if unloaded is not None:
        return {
            "phase": IN_FORCE,
            "since": time_text(unloaded.since),
            "until": time_text(unloaded.until),
            "proposer": unloaded.proposer,
            "reason": unloaded.reason[:LONGEST_REASON],
        }
    if outcome.hard_off is None or judged is None or judged.since is None:
        return None
    return {"phase": "Advised", "since": time_text(judged.since), "reason": outcome.hard_off[:LONGEST_REASON]}


def _in_force(report: PoolReport, document: Document) -> Table:
    """An engine of one depth reads no schedule."""
    if report.actuator == "fixed":
        return flat(report.view.resource.spec.speculation.depth.initial)
    return document.table


def _summary(reports: Sequence[PoolReport]) -> Object:
    def each(text: Any) -> str:
        return ",".join(text(report) or "-" for report in reports)

    def figure(name: str, factor: float = 1.0, unit: str = "") -> str:
        def one(report: PoolReport) -> str | None:
            value = getattr(report.outcome.figures, name, None)
            return None if value is None else f"{number(factor * value)}{unit}"

        return each(one)

    def gain(report: PoolReport) -> str | None:
        return None if report.outcome.gain is None else f"{100.0 * report.outcome.gain:+.0f}%"

    def schedule(report: PoolReport) -> str | None:
        document, probe = report.view.document, report.outcome.memory.probe
        return None if document is None else written(probe.back_to if probe else document.table)

    return {
        "state": each(lambda report: report.outcome.state),
        "depth": figure("mean_depth"),
        "accepted": figure("accepted_length"),
        "timePerOutputToken": figure("token_seconds", 1000.0, "ms"),
        "gain": each(gain),
        "kvFree": figure("kv_headroom", 100.0, "%"),
        "queue": figure("queue_seconds", 1000.0, "ms"),
        "schedule": each(schedule),
    }


def _metrics_available(reports: Sequence[PoolReport], live: Object, now: float) -> Object:
    faults = [(r.view.pool.name, r.outcome.data_fault) for r in reports if r.outcome.data_fault is not None]
    if faults:
        message = "; ".join(f"pool {name}: {fault.reason}" for name, fault in faults)
        return _condition("MetricsAvailable", "False", faults[0][1].kind, message, live, now)
    silent = [report.view.pool.name for report in reports if _is_silent(report)]
    if len(silent) == len(reports):
        return _condition("MetricsAvailable", "Unknown", "NoPods", "no pod is ready", live, now)
    message = "every pool reports"
    if silent:
        message = f"every pool with ready pods reports; none is ready in {', '.join(silent)}"
    return _condition("MetricsAvailable", "True", "Fresh", message, live, now)


def _is_silent(report: PoolReport) -> bool:
    """Whatever the decision, nothing is read of a pool without a ready pod, nor before its first schedule."""
    return not report.view.ready or report.view.document is None


def _speculation_active(reports: Sequence[PoolReport], live: Object, now: float) -> Object:
    drafted = {r.view.pool.name: r.outcome.figures.drafted for r in reports if r.outcome.figures is not None}
    unloaded = {r.view.pool.name for r in reports if r.outcome.memory.unloaded is not None}
    idle = [name for name, value in drafted.items() if value is False]
    if idle and unloaded.issuperset(idle):
        message = f"pools {', '.join(idle)} serve without their proposer: see pools[].hardOff"
        return _condition("SpeculationActive", "False", "HardOff", message, live, now)
    if idle:
        message = f"pools {', '.join(idle)} decode without a drafted token"
        return _condition("SpeculationActive", "False", "NothingDrafted", message, live, now)
    if wrong := [r.view.pool.name for r in reports if drafted.get(r.view.pool.name) and _hardly_accepted(r)]:
        message = (
            f"pools {', '.join(wrong)}: fewer than one first draft in ten is accepted: the proposer does not "
            "belong to this model, or its weights are not what they should be"
        )
        return _condition("SpeculationActive", "False", "HardlyAccepted", message, live, now)
    if not any(drafted.values()):
        return _condition("SpeculationActive", "Unknown", "NoTraffic", "nothing was decoded", live, now)
    return _condition("SpeculationActive", "True", "Drafting", "tokens are drafted", live, now)


def _hardly_accepted(report: PoolReport) -> bool:
    # Drafts looked up in the text may well be that bad.
    survival = report.outcome.memory.survival
    return (
        has_weights(report.view.resource.spec)
        and survival.known(1)
        and survival.accepted_share(1) < HARDLY_ACCEPTED
    )


def _condition(kind: str, status: str, reason: str, message: str, live: Object, now: float) -> Object:
    conditions = (live.get("status") or {}).get("conditions") or ()
    before = next((entry for entry in conditions if entry["type"] == kind), None)
    unchanged = before is not None and before.get("status") == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:LONGEST_REASON],
        "observedGeneration": live["metadata"]["generation"],
        "lastTransitionTime": before["lastTransitionTime"] if before and unchanged else time_text(now),
    }
