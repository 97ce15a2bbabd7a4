"""Does the engine follow? Every push is checked: reported, and seen in the depths of the steps.

Source: design/tuning.md, section 9. Depths are exact here (steps by depth), so each depth that was run must
be the table's for the batch it ran at. Missing data never counts as a fault.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from specfleet.api.schedule import Document, depth_for
from specfleet.engines.metrics_vllm import NOT_LIVE
from specfleet.tuning.evidence import Evidence, Usable
from specfleet.tuning.interval import PodInterval, PodKey
from specfleet.tuning.memory import Memory, PushFault
from specfleet.tuning.settings import PoolSettings

DEADLINE_SCRAPES = 3
DEADLINE_EXTRA_SECONDS = 15.0
PASSES = 2
LEAST_STEPS = 20
CONCLUSIVE_SHARE = 0.5  # a probe may be over before there are two passes
RETRY_SECONDS = 1800.0
MISPLACED_SHARE = 0.15
BATCH_SLACK = 0.2  # engines change rows with 10 % hysteresis, and a mean batch hides a range
DRAFT_SLACK = 1.15


@dataclass(frozen=True, slots=True)
class _Problem:
    message: str
    share: float
    depths: tuple[int, ...]


def applied(evidence: Evidence) -> int:
    """Count the ready pods that report the document in force."""
    document = evidence.document
    if document is None:
        return 0
    wanted = (document.fence, document.version)
    return sum(1 for pod in evidence.expected if evidence.versions.get(pod) == wanted)


def verified(memory: Memory, used: Usable, document: Document, settings: PoolSettings) -> Memory:
    """Look at one pass: raise a fault, keep it, or clear it once the engines follow again."""
    deadline = DEADLINE_SCRAPES * settings.scrape_seconds + DEADLINE_EXTRA_SECONDS + settings.rollout_seconds
    overdue = memory.written_at or 0.0
    late = [i for i in used.intervals if not _follows(i, document) and i.end > overdue + deadline]
    if late:
        versions = ", ".join(sorted({_said(i) for i in late}))
        names = ", ".join(sorted(i.pod[1] for i in late)[:3])
        message = (
            f"{len(late)} pods ({names}) report {versions} instead of version {document.version} "
            f"{deadline:.0f} s after the push: check the mount of the schedule and the engine's log"
        )
        return replace(memory, fault=PushFault("ScheduleNotApplied", message))
    settled = [i for i in used.intervals if _follows(i, document) and i.version_at_start == i.version]
    if not settled:
        return memory
    problem = next((found for i in settled if (found := _misplaced(i, document, used.unfit))), None)
    if problem is None:
        return (
            memory
            if _coincidence(memory.fault, settled)
            else replace(memory, fault=None, ineffective_passes=0)
        )
    passes = memory.ineffective_passes + 1
    if passes >= PASSES or problem.share > CONCLUSIVE_SHARE:
        at = max(i.end for i in settled)
        fault = PushFault("ScheduleNotEffective", problem.message, at, problem.depths)
        return replace(memory, fault=fault, ineffective_passes=passes)
    return replace(memory, ineffective_passes=passes)


def _coincidence(fault: PushFault | None, settled: Sequence[PodInterval]) -> bool:
    """Say whether engines fit the table only because it names the depth that they are stuck at."""
    if fault is None or not fault.depths:
        return False
    run = {depth for i in settled for depth, steps in i.counts.steps.items() if steps > 0}
    return run <= set(fault.depths) and max(i.end for i in settled) - fault.at < RETRY_SECONDS


def _follows(interval: PodInterval, document: Document) -> bool:
    return interval.version == (document.fence, document.version)


def _said(interval: PodInterval) -> str:
    if interval.not_live is not None:
        return f"no version ({NOT_LIVE.get(interval.not_live, 'the schedule file is not followed')})"
    return "no version" if interval.version is None else f"version {interval.version[1]}"


def _misplaced(interval: PodInterval, document: Document, unfit: Collection[PodKey]) -> _Problem | None:
    counts = interval.counts
    if counts.all_steps < LEAST_STEPS:
        return None
    wrong = {
        depth: steps
        for depth, steps in counts.steps.items()
        if steps > 0 and not _fits(depth, counts.sequence_steps.get(depth, steps) / steps, document)
    }
    share = sum(wrong.values()) / counts.all_steps
    if share > MISPLACED_SHARE:
        depths = ", ".join(f"{steps:.0f} steps at depth {depth}" for depth, steps in sorted(wrong.items()))
        message = f"pod {interval.pod[1]} reports version {document.version} but ran {depths}"
        return _Problem(message, share, tuple(sorted(wrong)))
    allowed, drafted = sum(d * n for d, n in counts.sequence_steps.items()), counts.draft_tokens
    if interval.aligned and drafted is not None and drafted > DRAFT_SLACK * allowed + LEAST_STEPS:
        message = f"pod {interval.pod[1]} drafted {drafted:.0f} tokens where {allowed:.0f} were allowed"
        return _Problem(message, share, ())
    # Where steps by depth were told from drafts, shallow drafts pass for a depth of the table.
    if drafted is not None and interval.pod in unfit and drafted < (1.0 - MISPLACED_SHARE) * allowed:
        message = f"pod {interval.pod[1]} drafted {drafted:.0f} tokens where {allowed:.0f} were scheduled"
        return _Problem(message, 1.0 - drafted / allowed, ())
    return None


def _fits(depth: int, batch: float, document: Document) -> bool:
    lowest = max(1, int(batch * (1.0 - BATCH_SLACK)))
    highest = int(batch * (1.0 + BATCH_SLACK)) + 1
    return any(depth_for(document.table, running) == depth for running in range(lowest, highest + 1))
