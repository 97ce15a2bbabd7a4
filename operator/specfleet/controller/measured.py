"""What was measured of a pool, as status writes it: rounded to what it is good for. Pure."""

from datetime import UTC, datetime
from typing import Any

from specfleet.api.kinds import Object
from specfleet.tuning.measure import Figures


def measured(figures: Figures, gain: float | None) -> Object:
    """Write the figures of a pass. ``gain``: over depth 0, as a share."""

    def milliseconds(seconds: float | None) -> str | None:
        return None if seconds is None else number(1000.0 * seconds)

    p50, p95 = milliseconds(figures.first_token_p50), milliseconds(figures.first_token_p95)
    body: dict[str, Any] = {
        "timeToFirstTokenMs": None if p50 is None else {"p50": p50, "p95": p95},
        "sampledAt": time_text(figures.sampled_at),
        "coveragePercent": round(100 * figures.coverage),
        "acceptanceRate": number(figures.acceptance_rate),
        "acceptedLength": number(figures.accepted_length),
        "survival": [number(share) for share in figures.survival] or None,
        "meanDepth": number(figures.mean_depth),
        "timePerOutputTokenMs": milliseconds(figures.token_seconds),
        "queueDelayMs": milliseconds(figures.queue_seconds),
        "kvHeadroomPercent": None if figures.kv_headroom is None else round(100 * figures.kv_headroom),
        "runningRequests": number(figures.running),
        "outputTokensPerSecond": number(figures.output_tokens_per_second),
        "completedRequestsPerSecond": number(figures.completions_per_second),
        "gainPercent": None if gain is None else {"value": number(100.0 * gain), "against": "depth0"},
    }
    return {key: value for key, value in body.items() if value is not None}


def number(value: float | None) -> str | None:
    """Three significant digits, never in exponent form."""
    if value is None:
        return None
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def time_text(seconds: float) -> str:
    """Write seconds since the epoch as Kubernetes does."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
