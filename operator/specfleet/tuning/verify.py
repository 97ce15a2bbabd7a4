"""Does the engine follow? Every push is checked: reported, and seen in the depths of the steps.

Source: design/tuning.md, section 9. Depths are exact here (steps by depth), so each depth that was run must
be the table's for the batch it ran at. Missing data never counts as a fault.
"""

from dataclasses import replace

from specfleet.api.schedule import Document, depth_for
from specfleet.tuning.evidence import Evidence, Usable
from specfleet.tuning.interval import PodInterval
from specfleet.tuning.memory import Memory, PushFault
from specfleet.tuning.settings import PoolSettings

DEADLINE_SCRAPES = 3
DEADLINE_EXTRA_SECONDS = 15.0
PASSES = 2
MISPLACED_SHARE = 0.15
BATCH_SLACK = 0.2  # engines change rows with 10 % hysteresis, and a mean batch hides a range
DRAFT_SLACK = 1.15


def applied(evidence: Evidence) -> int:
    """Count the ready pods that report the document in force."""
    document = evidence.document
    if document is None:
        return 0
    wanted = (document.fence, document.version)
    return sum(1 for pod in evidence.expected if evidence.versions.get(pod) == wanted)


def verified(memory: Memory, used: Usable, document: Document, settings: PoolSettings) -> Memory:
    """Look at one pass: raise a fault, keep it, or clear it once the engines follow again."""
    deadline = DEADLINE_SCRAPES * settings.scrape_seconds + DEADLINE_EXTRA_SECONDS
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
    problem = next((found for i in settled if (found := _misplaced(i, document))), None)
    if problem is None:
        return replace(memory, fault=None, ineffective_passes=0)
    passes = memory.ineffective_passes + 1
    fault = PushFault("ScheduleNotEffective", problem) if passes >= PASSES else memory.fault
    return replace(memory, fault=fault, ineffective_passes=passes)


def _follows(interval: PodInterval, document: Document) -> bool:
    return interval.version == (document.fence, document.version)


def _said(interval: PodInterval) -> str:
    return "no version" if interval.version is None else f"version {interval.version[1]}"


def _misplaced(interval: PodInterval, document: Document) -> str | None:
    counts = interval.counts
    if counts.all_steps < 20:
        return None
    wrong = {
        depth: steps
        for depth, steps in counts.steps.items()
        if steps > 0 and not _fits(depth, counts.sequence_steps.get(depth, steps) / steps, document)
    }
    if sum(wrong.values()) > MISPLACED_SHARE * counts.all_steps:
        depths = ", ".join(f"{steps:.0f} steps at depth {depth}" for depth, steps in sorted(wrong.items()))
        return f"pod {interval.pod[1]} reports version {document.version} but ran {depths}"
    scheduled = sum(depth * n for depth, n in counts.sequence_steps.items())
    if counts.draft_tokens is not None and counts.draft_tokens > DRAFT_SLACK * scheduled + 20:
        drafted = counts.draft_tokens
        return f"pod {interval.pod[1]} drafted {drafted:.0f} tokens where {scheduled:.0f} were allowed"
    return None


def _fits(depth: int, batch: float, document: Document) -> bool:
    lowest = max(1, int(batch * (1.0 - BATCH_SLACK)))
    highest = int(batch * (1.0 + BATCH_SLACK)) + 1
    return any(depth_for(document.table, running) == depth for running in range(lowest, highest + 1))
