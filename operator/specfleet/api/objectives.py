"""What holds for one pool: the resource's objectives and tuning with the pool's overrides, in SI units.

Defaults of objectives stand here and not in the CRD: a stored default in the resource would override nothing,
and one in the pool would override everything. Source: design/api.md, design/tuning.md.
"""

from dataclasses import dataclass
from typing import Literal

from specfleet.api.duration import seconds
from specfleet.api.resource import PoolSpec, ScheduleRow, Spec
from specfleet.api.schedule import Row, Table

KV_HEADROOM_PERCENT = 10
QUEUE_SHARE_OF_FIRST_TOKEN = 0.5


@dataclass(frozen=True, slots=True)
class EffectiveObjectives:
    """Limits of one pool; None: no limit. ``kv_headroom_share``: the least free share of KV, 0..1."""

    time_per_output_token_seconds: float | None
    time_to_first_token_seconds: float | None
    queue_delay_seconds: float | None
    kv_headroom_share: float


@dataclass(frozen=True, slots=True)
class EffectiveTuning:
    """What the tuner may do with one pool. ``schedule`` is the manual pin; None: none."""

    mode: Literal["Observe", "Recommend", "Enforce"]
    paused: bool
    metrics_source: str
    max_pushes_per_hour: int
    schedule: Table | None


def effective_objectives(spec: Spec, pool: PoolSpec) -> EffectiveObjectives:
    """Resolve the objectives of one pool.

    The queue may take half of the time to the first token when only that is limited; KV headroom is at least
    10 % unless the resource says otherwise.
    """
    own, common = pool.objectives, spec.objectives
    first_token = _seconds(own.time_to_first_token or common.time_to_first_token)
    queue = _seconds(own.queue_delay or common.queue_delay)
    if queue is None and first_token is not None:
        queue = first_token * QUEUE_SHARE_OF_FIRST_TOKEN
    headroom = (own.kv_headroom_percent, common.kv_headroom_percent, KV_HEADROOM_PERCENT)
    return EffectiveObjectives(
        time_per_output_token_seconds=_seconds(own.time_per_output_token or common.time_per_output_token),
        time_to_first_token_seconds=first_token,
        queue_delay_seconds=queue,
        kv_headroom_share=next(percent for percent in headroom if percent is not None) / 100,
    )


def effective_tuning(spec: Spec, pool: PoolSpec) -> EffectiveTuning:
    """Resolve the tuning of one pool."""
    own, common = pool.tuning, spec.tuning
    return EffectiveTuning(
        mode=common.mode if own.mode is None else own.mode,
        paused=common.paused if own.paused is None else own.paused,
        metrics_source=common.metrics_source,
        max_pushes_per_hour=own.max_pushes_per_hour or common.max_pushes_per_hour,
        schedule=table_of(rows) if (rows := own.schedule or common.schedule) else None,
    )


def _seconds(duration: str | None) -> float | None:
    return None if duration is None else seconds(duration)


def table_of(rows: tuple[ScheduleRow, ...]) -> Table:
    """Read the rows of a spec or a status."""
    return tuple(Row(row.max_requests, row.depth) for row in rows)
