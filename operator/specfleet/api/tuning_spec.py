"""What "better" means for a pool, what the tuner may do, and the manual pin. All of it is applied live."""

import itertools
from typing import Annotated, Literal

from pydantic import Field

from specfleet.api.fields import Depth, GoDuration, Percent, Written
from specfleet.api.rules import Rule, Rules, matching


class Objectives(Written):
    """What "better" is constrained by. Every field is optional, so that a pool can override one of them.

    All of it is applied live.
    """

    time_per_output_token: GoDuration | None = None
    """Longest mean time per output token, a Go duration such as 40ms. The fastest token is sought in any
    case; the last decision says when no known depth keeps this. Default: no limit. Applied live."""
    time_to_first_token: GoDuration | None = None
    """Longest p95 of the time to the first token, a Go duration; while more are late nothing is tried out.
    Default: no limit. Applied live."""
    queue_delay: GoDuration | None = None
    """Longest mean wait before a request starts, a Go duration; above it a shallower depth need not be
    better for certain. Default: half of timeToFirstToken, without one no limit. Applied live."""
    kv_headroom_percent: Percent | None = None
    """Share of KV-cache blocks that must stay free, in percent; below it depth is lowered. Default: 10.
    Applied live."""


class ScheduleRow(Written):
    """One row of a schedule: the depth for running requests above the row before, up to maxRequests."""

    max_requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Running requests of one pod up to which this row holds, inclusive. The last row leaves it out."""
    depth: Depth
    """Drafted tokens per verification step; 0 drafts nothing."""


MAX_ROWS = 32

PinnedSchedule = Annotated[
    tuple[ScheduleRow, ...],
    Field(min_length=1, max_length=MAX_ROWS),
    Rules(
        Rule(
            "the last row of schedule must be open: leave out its maxRequests",
            "size(self) == 0 || !has(self[size(self) - 1].maxRequests)",
            lambda rows: rows[-1].max_requests is None,
        ),
        Rule(
            "schedule must be sorted by maxRequests without repeats, and only its last row may leave it out",
            # Indices are written out: standard CEL has no range.
            f"{list(range(MAX_ROWS - 1))}.all(i, i + 1 >= size(self) || (has(self[i].maxRequests) && "
            "(!has(self[i + 1].maxRequests) || self[i].maxRequests < self[i + 1].maxRequests)))",
            lambda rows: all(
                row.max_requests is not None
                and (after.max_requests is None or row.max_requests < after.max_requests)
                for row, after in itertools.pairwise(rows)
            ),
        ),
    ),
]


class TuningSpec(Written):
    """What the tuner may do. All of it is applied live."""

    mode: Literal["Observe", "Recommend", "Enforce"] = "Recommend"
    """Observe measures only; Recommend also publishes the schedule it would push; Enforce pushes it. Enforce
    also restarts pods: of engines that take no table while they serve, and without the proposer where that
    pays (hardOff). Default: Recommend. Applied live."""
    paused: bool = False
    """Freeze the schedule where it is; measuring goes on. Default: false. Applied live."""
    metrics_source: Annotated[
        str,
        Field(max_length=63),
        Rules(
            matching(
                "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                "metricsSource is a name from the operator's configuration, never an address: lower-case "
                "letters, digits and '-'",
            )
        ),
    ] = "default"
    """Name of a metrics source in the operator's configuration. Default: default. Applied live."""
    max_pushes_per_hour: Annotated[int, Field(ge=1, le=60)] = 6
    """Most schedule changes of a pool in one hour, probes not counted. Default: 6. Applied live."""
    schedule: PinnedSchedule | None = None
    """Manual pin: this schedule is in force, and the tuner only measures. Default: none. Applied live."""


class PoolTuning(Written):
    """Overrides of spec.tuning for one pool. All of it is applied live."""

    mode: Literal["Observe", "Recommend", "Enforce"] | None = None
    """As in spec.tuning. Default: the value there. Applied live."""
    paused: bool | None = None
    """As in spec.tuning. Default: the value there. Applied live."""
    max_pushes_per_hour: Annotated[int, Field(ge=1, le=60)] | None = None
    """As in spec.tuning. Default: the value there. Applied live."""
    schedule: PinnedSchedule | None = None
    """As in spec.tuning. Default: the value there. Applied live."""
