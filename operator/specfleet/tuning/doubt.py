"""Why nothing may be changed now, whatever would be better."""

from specfleet.tuning.decision import Hold, HoldKind
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.verify import applied

FULL_WINDOW_PASSES = 3  # also what it takes to come back from a data fault


def doubts(settings: PoolSettings, evidence: Evidence, memory: Memory) -> Hold | None:
    """Give the first reason to change nothing."""
    fault = memory.fault
    reasons: tuple[tuple[bool, HoldKind, str], ...] = (
        (memory.unloaded is not None, "HardOff", memory.unloaded.reason if memory.unloaded else ""),
        (settings.max_depth == 0, "NoProposer", "method none: there is no depth to tune"),
        (not evidence.expected, "NoPods", "no pod is ready"),
        (
            len(evidence.fingerprints) > 1,
            "Rollout",
            "a rollout is running: pods of two configurations are not compared",
        ),
        (
            memory.restore is not None and evidence.fingerprints != {memory.fingerprint},
            "Rollout",
            "a rollout is running: the pods without a proposer take no depth but 0",
        ),
        (
            settings.actuator == "rollout" and applied(evidence) < len(evidence.expected),
            "Rollout",
            f"a rollout is running: {applied(evidence)} of {len(evidence.expected)} pods have the last table",
        ),
        (
            memory.good_passes < FULL_WINDOW_PASSES,
            "FirstWindow",
            f"waits for {FULL_WINDOW_PASSES} intervals of whole data",
        ),
        (fault is not None, "PushFault", f"{fault.reason}: {fault.message}" if fault else ""),
        (settings.tuning.mode == "Observe", "ModeObserve", "mode Observe measures and changes nothing"),
        (
            settings.tuning.mode == "Recommend",
            "ModeRecommend",
            "mode Recommend shows what it would push and changes nothing",
        ),
    )
    return next((Hold(kind, reason) for holds, kind, reason in reasons if holds), None)
